"""Whose memory it is: what other processes held, since when, and whether they are earlier lives of this worker."""

from dataclasses import dataclass

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Cause

NOTEWORTHY_SHARE = 0.05
"""Of the device. Contexts and drivers take 0.2 to 1.5 GiB of 80; what others hold beyond this share is somebody's model."""


@dataclass(frozen=True)
class Foreign:
    """What others held.

    Attributes:
        bytes: In all, where known.
        rows: That show it.
        at_start: Rows that show it was taken before this worker had loaded anything.
        earlier: Processes that are earlier incarnations.
        restarts: Signs that an earlier life had just ended.
    """

    bytes: int | None
    rows: list[EvidenceRow]
    at_start: list[EvidenceRow]
    earlier: list[EvidenceRow]
    restarts: list[EvidenceRow]

    @property
    def left_over(self) -> list[EvidenceRow]:
        """Rows in which a supervisor found a process of the life before when it started this one."""
        return [row for row in self.restarts if "left-over" in (row["detail"] or "")]

    @property
    def names(self) -> list[str]:
        """Names of these processes, where they were reported."""
        return sorted({str(row["name"]) for row in self.rows if row["query"] == "neighbours" and row["name"]})


def foreign(case: Case) -> Foreign:
    """What others held of the device at the failure."""
    siblings = {row["pid"] for row in case.ask("siblings")}
    named = [row for row in case.ask("neighbours") if row["pid"] not in siblings]
    pids = {row["pid"]: row for row in case.ask("writers") if row["pid"] is not None}
    earlier = [row for row in named if row["pid"] in pids]
    at_start = _taken_at_start(case)
    amounts = [
        case.figures["others_bytes"],
        sum(row["used_bytes"] or 0 for row in named if row["own"] is False) or None,
        _gate_others(case),
    ]
    amount = next((value for value in amounts if value is not None), None)
    if amount is None and at_start:
        amount = at_start[0]["used_bytes"]
    if amount is None and earlier:
        amount = sum(row["used_bytes"] or 0 for row in earlier)
    noteworthy = (case.share(amount) or 0) >= NOTEWORTHY_SHARE
    rows = [row for row in named if row["own"] is False] or ([case.root] if noteworthy else [])
    restarts = case.ask("restarts")
    if case.gate is not None and case.gate["gate"] == "start_memory" and noteworthy:
        at_start = [case.root, *at_start]
    return Foreign(amount if noteworthy else None, rows if noteworthy else [], at_start, earlier, restarts)


def held_by_an_earlier_life(case: Case) -> list[EvidenceRow]:
    """Rows that show memory of an earlier life, or of the instance being replaced, still held when this one started."""
    others = foreign(case)
    if others.bytes is None:
        return others.left_over
    return others.earlier or (others.at_start if others.restarts else [])


def cause(case: Case, others: Foreign) -> Cause | None:
    """The foreign_process link of the cause chain, or None where nobody else matters, as what was free would have done."""
    if others.bytes is None or _covered(case):
        return None
    who = f" ({', '.join(others.names)})" if others.names else ""
    return Cause(
        cause="foreign_process",
        bytes=others.bytes,
        detail=f"other processes{who} hold {size(others.bytes)} of the device",
        cites=cite((others.rows or others.at_start)[:3]),
    )


def dominates(case: Case, others: Foreign) -> bool:
    """Whether others are the first thing to mend: they hold more than this process, or refused it its start."""
    if others.bytes is None:
        return False
    own = case.figures["own_process_bytes"]
    if case.root["what"] == "refusal":
        return True
    return own is not None and others.bytes > own


def _covered(case: Case) -> bool:
    """Whether the device had enough left for the request, so that not its other users but a limit refused it."""
    free, requested = case.figures["free_bytes"], case.figures["requested_bytes"]
    return case.figures["limit_bytes"] is not None and free is not None and requested is not None and free >= requested


def _taken_at_start(case: Case) -> list[EvidenceRow]:
    """The first device report, if others held a noteworthy share of the device when nothing was loaded."""
    loaded = min((row["seq"] for row in case.ask("components") if row["component"] == "weights"), default=None)
    for row in case.ask("device"):
        if row["used_bytes"] is not None and row["total_bytes"]:
            first = loaded is None or row["seq"] < loaded or row["free_bytes"] is None
            return [row] if first and row["used_bytes"] / row["total_bytes"] >= NOTEWORTHY_SHARE else []
    return []


def _gate_others(case: Case) -> int | None:
    gate = case.gate
    if gate is None or gate["gate"] != "start_memory" or not gate["total_bytes"] or gate["available_bytes"] is None:
        return None
    return int(gate["total_bytes"] - gate["available_bytes"])
