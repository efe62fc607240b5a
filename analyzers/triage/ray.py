"""Ray's memory monitor: it kills a worker when the node's use of memory passes a threshold, before the kernel would."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.words import percent, size
from oomctl.schemas.verdict import Cause, Remedy

_THRESHOLD = re.compile(r"usage threshold of (\d\.\d{1,9}|1)\b")
HIGHEST = 0.98
"""A threshold above which the kernel's own killer is likely to be first."""


@dataclass(frozen=True)
class Monitor:
    """What Ray says of a kill.

    Attributes:
        victim: Whom it killed, as its task or actor is called; "" where it is not told.
        held_bytes: What the victim held.
        used_bytes: What the node used.
        total_bytes: What the node, or Ray's container, has.
        threshold: The share of it from which Ray kills.
        rows: That tell so.
    """

    victim: str
    held_bytes: int | None
    used_bytes: int | None
    total_bytes: int | None
    threshold: float | None
    rows: list[EvidenceRow]

    @property
    def over_bytes(self) -> int | None:
        """By how much the node was above the threshold."""
        if self.used_bytes is None or self.total_bytes is None or self.threshold is None:
            return None
        return max(self.used_bytes - round(self.threshold * self.total_bytes), 0)


def monitor(case: Case) -> Monitor | None:
    """What Ray says of the kill that is the root; None where it was none of Ray's."""
    if case.root["what"] != "oom" or case.root["api"] != "ray":
        return None
    words = [row for row in case.members if row["what"] == "oom" and row["api"] == "ray"]
    found = (_THRESHOLD.search(row["message"] or "") for row in words)
    threshold = next((float(match[1]) for match in found if match is not None), None)
    node = next(
        (row for row in reversed(case.ask("host_memory")) if row["total_bytes"] and row["free_bytes"] is not None), None
    )
    return Monitor(
        victim=next((row["victim"] for row in words if row["victim"]), ""),
        held_bytes=case.figures["own_process_bytes"],
        used_bytes=None if node is None else node["total_bytes"] - node["free_bytes"],
        total_bytes=None if node is None else node["total_bytes"],
        threshold=threshold,
        rows=[case.root, *([node] if node is not None else [])],
    )


def says(found: Monitor) -> str:
    """Whom Ray killed, and why, in one clause."""
    killed = f"Ray's memory monitor killed {found.victim or 'a worker'}"
    if found.held_bytes is not None:
        killed += f" ({size(found.held_bytes)})"
    if found.used_bytes is None:
        return f"{killed} because the node ran low on memory"
    above = f", above the threshold of {percent(found.threshold)}" if found.threshold is not None else ""
    return f"{killed}: the node used {size(found.used_bytes)} of {size(found.total_bytes)}{above}"


def cause(found: Monitor) -> Cause:
    """The link of the cause chain."""
    return Cause(cause="ray_memory_monitor", bytes=found.used_bytes, detail=says(found), cites=cite(found.rows))


def change(found: Monitor, largest: EvidenceRow | None = None) -> Iterator[Remedy]:
    """What to change: less on the node first, then a later kill.

    Args:
        found: What Ray says.
        largest: The process that held more than all that was killed, if one did.
    """
    short = found.over_bytes
    against = f"; the node was {size(short)} above the threshold" if short else ""
    held = found.held_bytes
    if largest is not None:
        yield Remedy(
            when="change",
            action="Find out why this process grew: it held most of the node's memory, and the one that Ray killed little.",
            setting=f"py-spy dump --pid {largest['pid']}; cat /proc/{largest['pid']}/smaps_rollup",
            frees_bytes=largest["rss_bytes"],
            short_bytes=short,
            arithmetic=f"{largest['name']} held {size(largest['rss_bytes'])}{against}",
            quality="estimated",
        )
    yield Remedy(
        when="change",
        action="Place fewer or smaller actors and tasks on the node: let each ask for the memory that it takes.",
        setting=f"@ray.remote(memory={held})" if held else "@ray.remote(memory=BYTES)",
        frees_bytes=held,
        short_bytes=short,
        arithmetic=f"{found.victim or 'the worker'} held {size(held)}{against}" if held else against[2:],
        quality="estimated",
    )
    yield Remedy(
        when="change",
        action="Give Ray's object store less of the node; it counts as used.",
        setting="ray start --object-store-memory BYTES",
        short_bytes=short,
        quality="estimated",
    )
    threshold, total = found.threshold, found.total_bytes
    if threshold is None or threshold < HIGHEST:
        gains = round((HIGHEST - threshold) * total) if threshold is not None and total is not None else None
        yield Remedy(
            when="change",
            action="Let the node fill up further before Ray kills, if what grows there ends.",
            setting=f"RAY_memory_usage_threshold={HIGHEST}",
            frees_bytes=gains,
            short_bytes=short,
            arithmetic="" if gains is None else f"({HIGHEST} - {threshold:g}) x {size(total)} = {size(gains)}{against}",
            quality="estimated",
        )
    yield Remedy(
        when="change",
        action="Or switch the monitor off; the kernel then kills when nothing is left, and chooses by itself.",
        setting="RAY_memory_monitor_refresh_ms=0",
    )
