"""A verdict stays through every change that leaves the story, and falls with the lines that it cites."""

import json

import pytest

from tests.metamorphic.changes import CHANGES
from tests.metamorphic.verdicts import cited_lines, essence, root, without
from tests.scenarios import catalogue, render_log
from tests.shared import SHARED, shared

SCENARIOS = [scenario.name for scenario in catalogue()]
ENGINES = ("vllm", "sglang", "transformers")


def _shared_names() -> list[str]:
    labels = SHARED / "data" / "oom_logs" / "labels.jsonl"
    if not labels.exists():
        return ["none"]
    rows = [json.loads(line) for line in labels.open(encoding="utf-8")]
    return [row["id"] for row in rows if row["engine"].replace("+", " ").split()[0] in ENGINES]


def _changed(text: str) -> dict[str, str]:
    """The changes that changed the verdict."""
    before = essence(root(text))
    after = {name: essence(root(change(text))) for name, change in CHANGES.items()}
    return {name: f"{before} -> {found}" for name, found in after.items() if found != before}


def _falls(text: str) -> None:
    """Without its cited lines a verdict is gone, or the same from other lines and less sure; never another class."""
    first = root(text)
    if first is None:
        return
    second = root(without(text, cited_lines(first)))
    if second is None or second.oom_class is None:
        return
    assert second.oom_class == first.oom_class
    assert second.confidence < first.confidence


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_keeps_its_verdict(name: str) -> None:
    assert _changed(render_log(name, seed=5, ranks=2)) == {}


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_scenario_falls_with_its_evidence(name: str, seed: int) -> None:
    _falls(render_log(name, seed=seed, ranks=seed))


@pytest.mark.parametrize("name", _shared_names())
def test_a_shared_log_keeps_its_verdict(name: str) -> None:
    text = shared("data", "oom_logs", "logs", f"{name}.log").read_text(encoding="utf-8", errors="replace")
    assert _changed(text) == {}


@pytest.mark.parametrize("name", _shared_names())
def test_a_shared_log_falls_with_its_evidence(name: str) -> None:
    _falls(shared("data", "oom_logs", "logs", f"{name}.log").read_text(encoding="utf-8", errors="replace"))


def test_the_changes_change_something() -> None:
    """A change that does nothing to a log would pass every test above."""
    text = render_log("warm_up_capture", seed=5, ranks=2)
    assert [name for name, change in CHANGES.items() if change(text) == text] == []
