"""Whose memory it is: what other processes held, since when, and whether they are earlier lives of this worker."""

from dataclasses import dataclass

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Cause

NOTEWORTHY_SHARE = 0.05
"""Of the device. Contexts and drivers take 0.2 to 1.5 GiB of 80; what others hold beyond this share is somebody's model."""


SAME_SHARE = 0.02
"""Two figures of one process, taken by different tools at different instants, differ by no more."""
ENGINES = frozenset({"engine", "interpreter", None})
"""Roles of processes that may be the engine's own."""
ROLES = {
    "cache_daemon": "a cache daemon",
    "mps_server": "the MPS server, for its clients",
    "trainer": "a trainer",
    "engine": "another inference engine, perhaps one put to sleep",
}


@dataclass(frozen=True)
class Foreign:
    """What others held.

    Attributes:
        bytes: In all, where known.
        rows: That show it.
        at_start: Rows that show it was taken before this worker had loaded anything.
        earlier: Processes that are earlier incarnations.
        restarts: Signs that an earlier life had just ended.
        mates: Ranks of this worker that hold memory of the same device.
    """

    bytes: int | None
    rows: list[EvidenceRow]
    at_start: list[EvidenceRow]
    earlier: list[EvidenceRow]
    restarts: list[EvidenceRow]
    mates: list[EvidenceRow]

    @property
    def left_over(self) -> list[EvidenceRow]:
        """Rows in which a supervisor found a process of the life before when it started this one."""
        return [row for row in self.restarts if "left-over" in (row["detail"] or "")]

    @property
    def names(self) -> list[str]:
        """Names of these processes, where they were reported."""
        return sorted({str(row["name"]) for row in self.rows if row["query"] == "neighbours" and row["name"]})

    @property
    def roles(self) -> list[str]:
        """What these processes are, as far as their names tell."""
        return sorted({ROLES[row["role"]] for row in self.rows if row.get("role") in ROLES})


def foreign(case: Case) -> Foreign:
    """What others held of the device at the failure."""
    siblings = {row["pid"] for row in case.ask("siblings")}
    seen = _on_the_device(case)
    mates = _mates(case, seen, siblings)
    named = [row for row in seen if row["pid"] not in siblings and row not in mates]
    others = _others(case, named)
    restarts = case.ask("restarts")
    earlier = _earlier(case, named, restarts)
    at_start = _taken_at_start(case, [row for row in others if row["before"]])
    held_by_mates = sum(row["used_bytes"] or 0 for row in mates)
    from_message = case.figures["others_bytes"]
    amounts = [
        None if from_message is None else max(from_message - held_by_mates, 0),
        sum(row["used_bytes"] or 0 for row in others) or None,
        _gate_others(case),
    ]
    amount = next((value for value in amounts if value is not None), None)
    if amount is None and at_start:
        amount = at_start[0]["used_bytes"]
    if amount is None and earlier:
        amount = sum(row["used_bytes"] or 0 for row in earlier)
    noteworthy = (case.share(amount) or 0) >= NOTEWORTHY_SHARE
    rows = others or ([case.root] if noteworthy else [])
    if case.gate is not None and case.gate["gate"] == "start_memory" and noteworthy:
        at_start = [case.root, *at_start]
    return Foreign(amount if noteworthy else None, rows if noteworthy else [], at_start, earlier, restarts, mates)


def _on_the_device(case: Case) -> list[EvidenceRow]:
    """Processes seen on the device that failed; on any, where none was seen on it: indices may be counted differently."""
    rows = case.ask("neighbours")
    here = [row for row in rows if row["device_id"] in (None, case.root.get("device_id"))]
    return here if case.root.get("device_id") is not None and any(row["device_id"] is not None for row in here) else rows


def _mates(case: Case, seen: list[EvidenceRow], siblings: set[int]) -> list[EvidenceRow]:
    """Processes that the message counts as others and that are ranks of this worker, placed on one device.

    By their pids; where a container counts pids of its own, by the figure: a rank on the same device says that it holds
    just so much itself.
    """
    ranks = [
        member
        for member in case.members
        if member["rank_name"] != case.root["rank_name"] and member["device_id"] == case.root.get("device_id") is not None
    ]
    own = [row["own_process_bytes"] for row in case.ask_of("figures", ranks) if row["own_process_bytes"] is not None]
    told = [row for row in seen if row["own"] is False and row["used_bytes"]]
    return [row for row in told if row["pid"] in siblings or any(_alike(row["used_bytes"], amount) for amount in own)]


def _others(case: Case, named: list[EvidenceRow]) -> list[EvidenceRow]:
    """Processes that are somebody else's, as the failure's message says, or a tool's table and their names tell.

    A table of the driver's tools does not say which process is the engine's. What was there before the engine had begun
    is not; nor is what by its name is no engine. Of the rest, one is the engine's own: the one that holds what the engine
    says to hold.
    """
    told = [row for row in named if row["own"] is False]
    if told:
        return told
    own = case.figures["own_process_bytes"]
    listed = [row for row in named if row["used_bytes"]]
    rest = [row for row in listed if own is None or not _alike(row["used_bytes"], own)]
    own_listed = any(not row["before"] for row in listed if row not in rest)
    strange = [row for row in rest if not row["before"] and (own_listed or row["role"] not in ENGINES)]
    return strange or [row for row in rest if row["before"]]


def _earlier(case: Case, named: list[EvidenceRow], restarts: list[EvidenceRow]) -> list[EvidenceRow]:
    """Processes that are earlier lives of this worker: by their pid, or an engine's before it began, after an end."""
    pids = {row["pid"] for row in case.ask("writers") if row["pid"] is not None}
    known = [row for row in named if row["pid"] in pids]
    if known or not restarts:
        return known
    return [row for row in named if row["before"] and row["role"] == "engine" and row["used_bytes"]]


def _alike(one: int | None, other: int) -> bool:
    return one is not None and abs(one - other) <= SAME_SHARE * max(one, other)


def misplaced(case: Case, others: Foreign) -> Cause | None:
    """The link for ranks that share a device which each took for its own, or for stages that share one on purpose."""
    amount = sum(row["used_bytes"] or 0 for row in others.mates)
    if (case.share(amount) or 0) < NOTEWORTHY_SHARE:
        return None
    stages = {row["stage"] for row in case.ask("siblings") if row["stage"] is not None}
    if len(stages) > 1:
        detail = f"other stages of this worker hold {size(amount)} of the same device: their shares must add up"
        return Cause(cause="stages_on_one_device", bytes=amount, detail=detail, cites=cite([case.root, *others.mates[:2]]))
    return Cause(
        cause="ranks_on_one_device",
        bytes=amount,
        detail=f"other ranks of this worker hold {size(amount)} of the same device: each needs one of its own",
        cites=cite([case.root, *others.mates[:2]]),
    )


def held_by_an_earlier_life(case: Case) -> list[EvidenceRow]:
    """Rows that show memory of an earlier life, or of the instance being replaced, still held when this one started."""
    others = foreign(case)
    if others.bytes is None:
        return others.left_over
    strangers = [row for row in others.rows if row.get("role") not in ENGINES]
    return others.earlier or (others.at_start if others.restarts and not strangers else [])


def cause(case: Case, others: Foreign) -> Cause | None:
    """The foreign_process link of the cause chain, or None where nobody else matters, as what was free would have done."""
    if others.bytes is None or _covered(case):
        return None
    who = f" ({', '.join(others.names)})" if others.names else ""
    what = f": {', '.join(others.roles)}" if others.roles else ""
    return Cause(
        cause="foreign_process",
        bytes=others.bytes,
        detail=f"other processes{who} hold {size(others.bytes)} of the device{what}",
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


def _taken_at_start(case: Case, before: list[EvidenceRow]) -> list[EvidenceRow]:
    """The first device report, if others held a noteworthy share of the device when nothing was loaded."""
    if before:
        return before
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
