"""The page on fleets says what there is."""

from oomctl.schemas.fleet import FINDINGS
from tests.working_tree import ROOT


def test_each_column_of_the_findings_is_told() -> None:
    page = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    for field in FINDINGS:
        assert f"| `{field.name}` | {field.doc} |" in page
