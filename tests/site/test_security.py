"""docs/security.md: each claim names tests that exist."""

import re

from tests.working_tree import ROOT


def test_every_claim_names_tests_that_are_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.endswith(" |")]
    start = next(n for n, line in enumerate(rows) if line == "| claim | held by |")
    claims = [line.split(" | ") for line in rows[start:] if line != "| claim | held by |"]
    assert len(claims) > 25
    for *_, held in claims:
        named = re.findall(r"`([\w/]+\.py)`", held)
        assert named or held == "all of these |", held
        assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
