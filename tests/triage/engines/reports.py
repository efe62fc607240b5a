"""What is said of a log, from its text to its first incident; the files beside this one hold each engine's reports."""

from typing import NamedTuple

from oomctl.schemas.verdict import Incident
from tests.triage.logs import triaged


class Report(NamedTuple):
    """A failure as an engine prints it.

    Attributes:
        name: What happened.
        text: The lines, re-created from the engine's formats.
        verdict: oom, capacity_gate, not_oom, None (undetermined), or "none" where there is nothing to report.
        oom_class: Of the root incident.
        resource: Of the root incident.
        survived: Of the root incident; "any" where the log does not tell enough.
    """

    name: str
    text: str
    verdict: str | None
    oom_class: str | None = None
    resource: str | None = "device"
    survived: bool | str | None = "any"


def check(report: Report) -> Incident | None:
    """Compare the first incident with what the report says of it."""
    found = triaged(report.text)
    if report.verdict == "none":
        assert found == [], [item.summary for item in found]
        return None
    assert found, "no incident"
    first = found[0]
    told = (first.verdict, first.oom_class, first.resource)
    assert told == (report.verdict, report.oom_class, report.resource), (
        first.summary,
        first.confidence,
        first.alternatives,
    )
    if report.survived != "any":
        assert first.survived is report.survived
    return first
