"""Triage: from the event table to incidents, each with its verdict and the rows that prove it."""

from typing import TYPE_CHECKING

from oomctl import queries
from oomctl.analyzers.triage import limits, texts
from oomctl.analyzers.triage.across import Group
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.causes import OTHER_DEATH
from oomctl.analyzers.triage.evidence import Answers
from oomctl.analyzers.triage.groups import incidents
from oomctl.analyzers.triage.repeats import fold
from oomctl.analyzers.triage.stories import Stories
from oomctl.analyzers.triage.twice import is_echo, pairs, told_once
from oomctl.analyzers.triage.verdict import incident
from oomctl.schemas.verdict import Incident

if TYPE_CHECKING:
    import duckdb

    from oomctl.schemas.ledger import Ledger

MAX_TOGETHER = 50
"""Incidents about which evidence is asked at once: what is known of them is held until they are told."""


def triage(connection: "duckdb.DuckDBPyConnection", last: bool = False, ledger: "Ledger | None" = None) -> list[Incident]:
    """The incidents of `survey`."""
    return survey(connection, last, ledger)[0]


def survey(
    connection: "duckdb.DuckDBPyConnection", last: bool = False, ledger: "Ledger | None" = None
) -> tuple[list[Incident], int]:
    """Every incident in the event table: those of memory first, of these the fatal ones first, then in their order.

    Args:
        connection: With the event table.
        last: Only incidents of each worker's newest incarnation that has one.
        ledger: Of the deployment: what was not recorded is taken from it, and marked.

    Returns:
        The incidents, and how many more failures were counted and not looked into, because there are so many.
    """
    queries.install(connection)
    stories = Stories(connection)

    def of(groups: list[Group]) -> list[Incident]:
        return _incidents(connection, groups, ledger)

    logs, cut = limits.split(_newest(incidents(connection, besides=stories.streams), last))
    before, omitted = limits.alike(logs, cut)
    measured: list[tuple[str, Incident]] = []
    twice: list[tuple[Group, int, Group]] = []
    if stories.streams:
        with stories.told():
            rings, cut = limits.split(_newest(incidents(connection), last))
            omitted += len(cut)
            for log, members in pairs(logs, rings):
                twice.append((log, next(n for n, each in enumerate(rings) if each is members), stories.recorded(members)))
            for members in rings:
                stories.name(members)
            with_logs = [[*members, *_of(twice, n)] for n, members in enumerate(rings)]
            told = stories.as_recorded(of(with_logs))
        reasons = [(log, n, recorded) for log, n, recorded in twice if not is_echo(log, recorded)]
        for (_, n, _), item in zip(reasons, of([[*log, *recorded] for log, _, recorded in reasons]), strict=True):
            told[n] = told_once(told[n], item)
        measured = [(members[0]["stream"], item) for members, item in zip(rings, told, strict=True)]
    alone = [log for log in logs if not any(log is each for each, _, _ in twice)]
    printed = [(log[0]["stream"], item) for log, item in zip(alone, of(alone), strict=True)]
    for log, (_, item) in zip(alone, printed, strict=True):
        item.repeats = next(count for each, count in zip(logs, before, strict=True) if each is log)
    ordered = sorted(fold(printed + measured), key=lambda item: (_of_another_kind(item), item.survived is True))
    return texts.fill(connection, ordered), omitted


def _of(twice: list[tuple[Group, int, Group]], n: int) -> Group:
    """What a log tells of the n-th failure of the rings."""
    return [row for log, other, _ in twice if other == n for row in log]


def _newest(groups: list[Group], last: bool) -> list[Group]:
    """Those to be told of."""
    if last:
        newest = {members[0]["worker"]: members[0]["incarnation"] for members in groups}
        groups = [members for members in groups if newest[members[0]["worker"]] == members[0]["incarnation"]]
    return groups


def _incidents(connection: "duckdb.DuckDBPyConnection", groups: list[Group], ledger: "Ledger | None") -> list[Incident]:
    """The verdict on each group of failures."""
    found: list[Incident] = []
    for begin in range(0, len(groups), MAX_TOGETHER):
        answers = Answers(connection)
        cases = [Case(answers, members[0], members, ledger) for members in groups[begin : begin + MAX_TOGETHER]]
        found += [incident(case) for case in cases]
    return found


def _of_another_kind(item: Incident) -> bool:
    """Whether an engine died of something else, or of what the log does not tell."""
    return any(cause.cause == OTHER_DEATH for cause in item.causes)


__all__ = ["survey", "triage"]
