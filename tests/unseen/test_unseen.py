"""Logs re-created from public reports by somebody who did not know the rules; README.md beside it has the blind score."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.metamorphic.verdicts import root

HERE = Path(__file__).parent
LABELS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "labels.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("label", LABELS, ids=lambda label: label["name"])
def test_what_the_report_settled(label: dict[str, Any]) -> None:
    first = root((HERE / f"{label['name']}.log").read_text(encoding="utf-8"))
    assert first is not None
    assert first.verdict == label["verdict"]
    assert first.oom_class in {label["class"], *label["accept_classes"]}
    assert first.resource == label["resource"]
