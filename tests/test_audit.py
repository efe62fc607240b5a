"""What the audit says of what pip-audit prints: it never calls something audited that was not looked up."""

import json
from typing import Any

import pytest

from tests.audit import installed, judged

PACKAGES = {"a": "1", "b": "2"}


def printed(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


SKIPPED = [{"name": name, "skip_reason": "not found on PyPI"} for name in PACKAGES]
GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"], "description": "x"}]}


@pytest.mark.parametrize("text", ["", "Traceback", "{}", "[]", printed(), printed(*SKIPPED)])
def test_without_a_network_nothing_is_audited_and_nothing_fails(text: str) -> None:
    assert judged(PACKAGES, text) == (["audit: not reachable: not audited (2 packages)"], 0)


def test_what_was_looked_up_and_what_was_not() -> None:
    assert judged(PACKAGES, printed(GOOD, SKIPPED[1])) == (["audit: 1 of 2 packages looked up; not: b"], 0)
    lines, status = judged(PACKAGES, printed(GOOD, BAD))
    assert (lines[1:], status) == (["audit: b 2: CVE-1, mended in ['3']"], 1)


def test_what_is_declared_and_what_that_needs_is_looked_up() -> None:
    found = installed()
    assert {"duckdb", "pyarrow", "grpcio", "protobuf"} <= found.keys()
    assert "pytest" not in found
