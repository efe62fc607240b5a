"""Triage of a text, and the parts of a verdict that metamorphic tests compare."""

from collections.abc import Iterator

from oomctl.schemas.verdict import Incident
from tests.triage.logs import triaged


def root(text: str) -> Incident | None:
    """The root incident, or None."""
    found = triaged(text)
    return found[0] if found else None


def essence(incident: Incident | None) -> tuple[object, ...] | None:
    """Verdict, class, resource and first cause."""
    if incident is None:
        return None
    cause = incident.causes[0].cause if incident.causes else None
    return (incident.verdict, incident.oom_class, incident.resource, cause)


def cited_lines(incident: Incident) -> set[int]:
    """Every line that the verdict cites for itself."""
    return set(_lines(incident))


def _lines(incident: Incident) -> Iterator[int]:
    for statement in incident.evidence:
        yield from (cite.line for cite in statement.cites if cite.line is not None)
    for cause in incident.causes:
        yield from (cite.line for cite in cause.cites if cite.line is not None)
    # "7 later failures followed from it (lines ...)": copies of the message, and the other ranks' own.
    if incident.cascade is not None:
        yield from incident.cascade.lines


def without(text: str, lines: set[int]) -> str:
    """The text with some lines deleted, counted by \\n."""
    return "".join(f"{line}\n" for n, line in enumerate(text.split("\n"), 1) if n not in lines)
