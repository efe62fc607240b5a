"""Triage: from the event table to incidents, each with its verdict and the rows that prove it."""

from typing import TYPE_CHECKING

from oomctl import queries
from oomctl.analyzers.triage import texts
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.causes import OTHER_DEATH
from oomctl.analyzers.triage.evidence import EvidenceRow
from oomctl.analyzers.triage.groups import incidents
from oomctl.analyzers.triage.repeats import fold
from oomctl.analyzers.triage.stories import Stories
from oomctl.analyzers.triage.verdict import incident
from oomctl.schemas.verdict import Incident

if TYPE_CHECKING:
    import duckdb

MAX_INCIDENTS = 200
"""The newest of them; what stood before is a crash loop that repeats itself."""


def triage(connection: "duckdb.DuckDBPyConnection", last: bool = False) -> list[Incident]:
    """Every incident in the event table: those of memory first, of these the fatal ones first, then in their order.

    Args:
        connection: With the event table.
        last: Only incidents of each worker's newest incarnation that has one.
    """
    queries.install(connection)
    stories = Stories(connection)
    found = _found(
        connection, [members for members in incidents(connection) if members[0]["stream"] not in stories.streams], last
    )
    if stories.streams:
        with stories.told():
            groups = incidents(connection)
            for members in groups:
                stories.name(members)
            told = _found(connection, groups, last)
            found += zip((story for story, _ in told), stories.as_recorded([item for _, item in told]), strict=True)
    ordered = sorted(fold(found), key=lambda item: (_of_another_kind(item), item.survived is True))
    return texts.fill(connection, ordered)


def _found(
    connection: "duckdb.DuckDBPyConnection", groups: list[list[EvidenceRow]], last: bool
) -> list[tuple[str, Incident]]:
    """(stream, incident) of each group of failures."""
    if last:
        newest = {members[0]["worker"]: members[0]["incarnation"] for members in groups}
        groups = [members for members in groups if newest[members[0]["worker"]] == members[0]["incarnation"]]
    return [(members[0]["stream"], incident(Case(connection, members[0], members))) for members in groups[-MAX_INCIDENTS:]]


def _of_another_kind(item: Incident) -> bool:
    """Whether an engine died of something else, or of what the log does not tell."""
    return any(cause.cause == OTHER_DEATH for cause in item.causes)


__all__ = ["triage"]
