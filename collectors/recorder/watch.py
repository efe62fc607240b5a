"""When to freeze: what in the rows, and in the deaths of processes, may mean that memory ran out; once for each cascade."""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from oomctl.collectors.recorder.drained import Death
from oomctl.schemas.rows import Row

CASCADE_US = 10 * 60 * 1_000_000
"""Signs nearer to each other than this are one cascade; also the width of the bucket that names an incident, so that the
nodes of one worker, which see its end some seconds apart, give it one name."""
COUNTERS = {"num_ooms": ("hard", 1), "num_alloc_retries": ("soft", 1), "preempted_requests": ("soft", 2)}
"""Cumulative counters of allocator and kv_pool rows, with how many times one must grow within TOGETHER_US to be a sign."""
SURVIVED = 2
"""So many out-of-memory rows that the engine survived, within TOGETHER_US, are a sign: one preemption is daily business."""
TOGETHER_US = 60_000_000
ORDERLY = ("draining", "stopped")


@dataclass(frozen=True)
class Sign:
    """Something that means that memory ran out.

    Attributes:
        ts: When, in microseconds since 1970.
        worker: Whose.
        incarnation: Which life of it.
        severity: hard: an allocation failed, or a process is gone. soft: the engine went on.
        reason: In words.
        since: When the first soft sign was that this hard one takes the place of; None where there was none.
    """

    ts: int
    worker: str
    incarnation: str
    severity: str
    reason: str
    since: int | None = None

    @property
    def incident_id(self) -> str:
        """Deterministic: every node that sees the same cascade of the same life gives it the same."""
        text = f"{self.worker}|{self.incarnation}|{self.severity}|{self.ts // CASCADE_US}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def plain(self) -> dict[str, Any]:
        """For the recorder's state."""
        return asdict(self)


class Watch:
    """Tells the first sign of each cascade.

    Args:
        worker: The worker that is recorded.
        incarnation: Its present life.
        last: When the last sign of each (incarnation, severity) was, from an earlier recorder.

    Attributes:
        incarnation: The present life, for sources that do not name it.
    """

    def __init__(self, worker: str, incarnation: str, last: dict[str, int] | None = None) -> None:
        self._worker = worker
        self.incarnation = incarnation
        self.last = dict(last or {})
        self._counters: dict[tuple[str, str], int] = {}
        self._seen: dict[tuple[str, str], list[int]] = {}
        self._orderly: set[str] = set()

    def rows(self, rows: Iterable[Row], now_us: int) -> list[Sign]:
        """The signs in rows, of each cascade the first."""
        found = []
        for row in rows:
            kind = row["kind"]
            if kind == "oom":
                soft = row["oom"].get("fatal") is False
                sign = self._sign(row, now_us, "soft" if soft else "hard", f"an out-of-memory event ({row['source']})")
                if not soft or self._together((row["stream"], "oom"), sign.ts, SURVIVED):
                    found.append(sign)
            elif kind == "refusal":
                found.append(self._sign(row, now_us, "hard", "the engine refused for want of memory"))
            elif kind == "fault" and row["source"] == "agent" and row["fault"].get("fatal"):
                # Not only for want of memory: which it was, triage says.
                found.append(self._sign(row, now_us, "hard", "the engine failed"))
            elif kind in ("allocator", "kv_pool"):
                found += self._grown(row, now_us)
            elif kind == "lifecycle" and row["lifecycle"].get("phase") in ORDERLY:
                self._orderly.add(self._life(row))
        return self._first(found)

    def deaths(self, deaths: Iterable[Death], now_us: int) -> tuple[list[Sign], list[Death]]:
        """(Signs, deaths that were no orderly end).

        An engine whose core ended in order takes its other processes with it; a core that is gone without a word is not
        excused by a server that then shuts down in order.
        """
        dead = list(deaths)
        self._orderly |= {death.header.incarnation for death in dead if death.header.closed and _leads(death)}
        violent = [death for death in dead if not death.header.closed and death.header.incarnation not in self._orderly]
        signs = [
            Sign(
                death.last_us or now_us,
                self._worker,
                death.header.incarnation or self.incarnation,
                "hard",
                f"process {death.header.pid} ({death.header.role}) is gone and said nothing",
            )
            for death in violent
        ]
        return self._first(signs), violent

    def gone(self, now_us: int) -> list[Sign]:
        """The process that is recorded is gone, and no ring tells of it."""
        if self._orderly:
            return []
        return self._first([Sign(now_us, self._worker, self.incarnation, "hard", "the process is gone")])

    def _grown(self, row: Row, now_us: int) -> list[Sign]:
        found = []
        for name, (severity, times) in COUNTERS.items():
            value = row[row["kind"]].get(name)
            if value is None:
                continue
            key = (row["stream"], name)
            before = self._counters.get(key)
            self._counters[key] = value
            if before is None or value <= before:
                continue
            sign = self._sign(row, now_us, severity, f"{name} grew from {before} to {value}")
            if self._together(key, sign.ts, times):
                found.append(sign)
        return found

    def _together(self, key: tuple[str, str], ts: int, times: int) -> bool:
        """Whether this is at least the so-manieth of its kind within TOGETHER_US."""
        seen = [before for before in self._seen.get(key, []) if ts - before < TOGETHER_US] + [ts]
        self._seen[key] = seen[-times:]
        return len(seen) >= times

    def _sign(self, row: Row, now_us: int, severity: str, reason: str) -> Sign:
        ts = row.get("ts") if row.get("ts_quality") == "exact" else None
        return Sign(ts if ts is not None else now_us, self._worker, self._life(row), severity, reason)

    def _life(self, row: Row) -> str:
        named = row.get("incarnation")
        # A log counts lives by itself; what it says now is of the present one.
        return named if named and row["source"] != "log" else self.incarnation

    def _first(self, signs: list[Sign]) -> list[Sign]:
        """Those that begin a cascade. A hard sign is not swallowed by soft ones before it, but the converse holds."""
        first = []
        for sign in signs:
            joined = [f"{sign.incarnation}|{severity}" for severity in ("soft", "hard")[sign.severity == "hard" :]]
            if not any(abs(sign.ts - self.last[key]) < CASCADE_US for key in joined if key in self.last):
                first.append(sign)
            key = f"{sign.incarnation}|{sign.severity}"
            self.last[key] = max(sign.ts, self.last.get(key, sign.ts))
        return first


def _leads(death: Death) -> bool:
    return death.header.role == "core"
