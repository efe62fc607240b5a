"""One failure that a worker's rings and its log both tell of: one incident, with the evidence of both.

A recorder that follows a log beside the rings gives the rows of both the name of the worker. The rings measure, and know
their times; the log quotes the error, and may be the only one that tells of a process without a ring.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from oomctl.analyzers.triage.across import NOTICED, SKEW, WAITED, WAITERS, Group
from oomctl.schemas.verdict import CODES, Alternative, Incident

QUARTER = timedelta(minutes=15)
"""Zones differ by whole ones."""
FARTHEST = timedelta(hours=14)
"""By which a zone may be off UTC."""
WITHOUT_YEAR = 2001
"""Times of this year or before were printed without one."""
_CAUSES = frozenset({"oom", "refusal", "pressure"})
_CONCLUSIONS = ("verdict", "oom_class", "resource")
_OF_THE_ENGINE = ("engine", "engine_version")
_FILLED = (
    *_OF_THE_ENGINE, "requested_bytes", "short_bytes", "survived", "phase", "rank", "rank_name", "memory_at_oom",
    "cohort_at_oom", "allocator_at_oom",
)  # fmt: skip
"""What one teller may know and the other not."""


def pairs(printed: Sequence[Group], measured: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Which groups of failures are one told twice, (of the log, of the rings): the nearest in time.

    Where no times can be compared, only what is alone on both sides belongs together.
    """
    related = [(log, rings) for log in printed for rings in measured if _related(log, rings)]
    apart = [(_apart(log, rings), log, rings) for log, rings in related]
    near = [(time, log, rings) for time, log, rings in apart if time is not None and time <= _patience(log, rings)]
    untimed = [(log, rings) for time, log, rings in apart if time is None]
    alone = [
        (log, rings)
        for log, rings in untimed
        if sum(each is log for each, _ in untimed) == sum(each is rings for _, each in untimed) == 1
    ]
    found: list[tuple[Group, Group]] = []
    for log, rings in [*((log, rings) for _, log, rings in sorted(near, key=lambda item: item[0])), *alone]:
        if not any(log is known or rings is other for known, other in found):
            found.append((log, rings))
    return found


def is_echo(log: Group, rings: Group) -> bool:
    """Whether the log only quotes what others said of a process that the recorder saw killed: not why it ended."""
    return bool(log[0]["what"] == "death" and rings[0]["what"] == "killed")


def told_once(measured: Incident, printed: Incident) -> Incident:
    """The incident of a failure that was told twice: by whom decides more of it, by the rings where both decide alike.

    Args:
        measured: What the rings tell of it.
        printed: What the log tells.
    """
    agree = all(_same(measured, printed, name) for name in _CONCLUSIONS)
    better, other = (measured, printed) if _decided(measured, agree) >= _decided(printed, agree) else (printed, measured)
    names = _FILLED if agree else _OF_THE_ENGINE
    filled = {name: getattr(other, name) for name in names if getattr(better, name) is None}
    if not agree:
        return msgspec.structs.replace(better, **filled, alternatives=[*better.alternatives, *_as_alternative(other)])
    said = {statement.says for statement in better.evidence}
    # Two that know nothing add nothing to each other.
    supported = {better.oom_class, better.resource, "survived"} if better.verdict is not None else set()
    unknown_to_both = {item.what for item in other.missing}
    return msgspec.structs.replace(
        better,
        **filled,
        confidence=max(better.confidence, other.confidence),
        evidence=better.evidence
        + [item for item in other.evidence if item.supports in supported and item.says not in said],
        missing=[item for item in better.missing if other.verdict is None or item.what in unknown_to_both],
        remedies=better.remedies or other.remedies,
    )


def _same(one: Incident, other: Incident, name: str) -> bool:
    """Whether two tellings agree on a conclusion, or one of them does not draw it."""
    return None in (getattr(one, name), getattr(other, name)) or getattr(one, name) == getattr(other, name)


def _decided(incident: Incident, agree: bool) -> tuple[bool, bool, float]:
    decided = incident.oom_class is not None or incident.resource == "host"
    return incident.verdict is not None, decided, 0 if agree else incident.confidence


def _as_alternative(incident: Incident) -> list[Alternative]:
    oom_class = incident.oom_class
    if oom_class is None:
        return []
    why = "another source tells it so: " + "; ".join(statement.says for statement in incident.evidence[:2])
    return [Alternative(oom_class=oom_class, code=CODES[oom_class], confidence=incident.confidence, why=why)]


def _related(log: Group, rings: Group) -> bool:
    """Whether two groups may tell of one failure: of one worker, and not of different kinds of memory."""
    one, other = log[0], rings[0]
    if one["worker"] != other["worker"]:
        return False
    causes = {one["what"], other["what"]} <= _CAUSES
    return bool(one["resource"] == other["resource"] or not (causes or one["soft"] or other["soft"]))


def _patience(log: Group, rings: Group) -> timedelta:
    """How far apart two tellings of one failure may be."""
    if any(group[0]["name"] in WAITERS for group in (log, rings)):
        return WAITED
    return SKEW if {log[0]["what"], rings[0]["what"]} <= _CAUSES else NOTICED


def _apart(log: Group, rings: Group) -> timedelta | None:
    """The time between two groups, none where they overlap; None where no times can be compared."""
    sure = [
        [row["ts"] for row in group if row["ts"] is not None and row["ts_quality"] == "exact"] for group in (log, rings)
    ]
    if all(sure):
        first, last = sorted(sure, key=min)
        gap: timedelta = min(last) - max(first)
        return max(gap, timedelta())
    if not sure[1] or log[0]["ts"] is None:
        return None
    return _up_to_the_zone(log[0]["ts"], min(sure[1]))


def _up_to_the_zone(printed: datetime, known: datetime) -> timedelta | None:
    """By how much two times differ if the zone of one is not known; None where they differ by more than any zone."""
    if printed.year <= WITHOUT_YEAR:
        try:
            printed = printed.replace(year=known.year)
        except ValueError:
            return None  # the 29th of February
    apart = printed - known
    return None if abs(apart) > FARTHEST else abs(apart - round(apart / QUARTER) * QUARTER)
