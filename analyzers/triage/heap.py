"""What the allocator's snapshot of a failure tells: why the allocation did not fit, and who held the memory."""

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from oomctl.analyzers.allocator.advice import Cause as FitCause
from oomctl.analyzers.allocator.advice import advice
from oomctl.analyzers.allocator.components import component, telling
from oomctl.analyzers.allocator.fit import FULL_RATIO, Fit, Request, fit
from oomctl.analyzers.allocator.model.settings import settings_of
from oomctl.analyzers.allocator.recorded import pool_id, recorded_state
from oomctl.analyzers.allocator.state import Pool, pools, total
from oomctl.analyzers.allocator.timeline import holders_at_end
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.heaps import INFERRED
from oomctl.analyzers.triage.words import size
from oomctl.schemas.heap import NO_STACK, Snapshot
from oomctl.schemas.verdict import AllocatorPool, AllocatorState, Cause, FitMargin

if TYPE_CHECKING:
    import duckdb

MAX_POOLS = 50
_SAYS: dict[FitCause, str] = {
    "limit": "a limit that the process set on itself refused it",
    "allocator_anomaly": "a free block, or a flush of the cache, should have served it",
    "flush_skipped": "cached segments would have been enough, but none is given back while a graph is captured",
    "driver_refusal": "the device had room, and still it was refused: by the driver, or by a limit that nothing here tells",
    "fragmentation": "enough was free in its own pool, in holes between blocks in use",
    "private_pools": "enough was free in private pools (CUDA graphs), which serve nobody else",
    "other_streams": "enough was free in blocks of other streams, or pending there",
    "non_torch": "memory of this process outside PyTorch stood in the way",
    "other_process": "memory of other processes stood in the way",
    "exhaustion": "nothing that could be reclaimed would have been enough",
}


class Heap:
    """The allocator of the root failure's device.

    Attributes:
        row: Of heaps.sql.
        inferred: Whether no entry of the failed allocation was kept.
    """

    def __init__(self, case: Case, row: EvidenceRow, connection: "duckdb.DuckDBPyConnection") -> None:
        self.row = row
        self.device: int = row["device_id"] or 0
        self.inferred = any(member["stream"] == row["stream"] and member["name"] == INFERRED for member in case.members)
        self._case = case
        self._connection = connection

    @cached_property
    def _recorded(self) -> tuple[Snapshot, list[str]]:
        return recorded_state(self._connection, self.row["stream"], self.device, self.row["oom_n"])

    @property
    def snapshot(self) -> Snapshot:
        """The state of the allocator."""
        return self._recorded[0]

    @cached_property
    def pools(self) -> list[Pool]:
        """Of the device, the largest first."""
        return pools(self.snapshot, self.device)

    @cached_property
    def fit(self) -> Fit | None:
        """The fit test of the failed allocation; None where its size is nowhere told."""
        figures, row = self._case.figures, self.row
        asked = row["oom_bytes"] or figures["requested_bytes"]
        if asked is None:
            return None
        frames = self._case.frames_of("warm_up", "capture")
        return fit(
            self.snapshot,
            Request(
                request_bytes=asked,
                device=self.device,
                stream=int(row["cuda_stream"] or 0),
                pool=pool_id(row["pool_id"]),
                pool_told=row["pool_id"] is not None,
                device_free_bytes=_first(row["device_free_bytes"], figures["free_bytes"]),
                limit_bytes=figures["limit_bytes"],
                total_bytes=figures["total_bytes"],
                own_process_bytes=figures["own_process_bytes"],
                others_bytes=figures["others_bytes"],
                capturing=bool(frames),
                index=row["oom_n"] if row["oom_n"] is not None else -1,
            ),
        )

    @cached_property
    def reclaimable_bytes(self) -> int:
        """All that PyTorch held and nobody used."""
        return total(self.pools, "inactive_bytes") + total(self.pools, "pending_bytes")

    @property
    def why(self) -> FitCause | None:
        """Why it did not fit. Whatever was asked for, exhaustion where next to nothing could be reclaimed."""
        if self.fit is not None:
            return self.fit.cause
        reserved = total(self.pools, "reserved_bytes")
        return "exhaustion" if reserved and self.reclaimable_bytes <= (1 - FULL_RATIO) * reserved else None

    @cached_property
    def held(self) -> dict[str, int]:
        """Active bytes by component, the largest first."""
        held: dict[str, int] = {}
        for holder in holders_at_end(self.snapshot, self.device):
            name = component(self.snapshot.frames_of(holder.stack))
            held[name] = held.get(name, 0) + holder.bytes
        return dict(sorted(held.items(), key=lambda item: -item[1]))

    def share(self, *components: str) -> float:
        """Of the active bytes, what some components hold."""
        active = sum(self.held.values())
        return sum(self.held.get(name, 0) for name in components) / active if active else 0.0

    def rows_of(self, name: str) -> list[EvidenceRow]:
        """The counters, and the telling frame of the largest holder of a component."""
        for holder in holders_at_end(self.snapshot, self.device):
            frames = self.snapshot.frames_of(holder.stack)
            if holder.stack != NO_STACK and component(frames) == name:
                stack = {"stream": self.row["stream"], "stack_id": self._recorded[1][holder.stack]}
                rows = self._case.ask_of("stack_frames", [stack])
                shown = telling(frames)[0]
                return [self.row, *(row for row in rows if (row["file"], row["function"]) == (shown[0], shown[2]))][:2]
        return [self.row]

    def causes(self) -> list[Cause]:
        """The link of the chain that the fit test found."""
        why, found = self.why, self.fit
        if why is None:
            return []
        if found is None:
            detail = (
                f"whatever was asked for: all that the allocator could have reclaimed were {size(self.reclaimable_bytes)}"
            )
            return [Cause(cause=why, bytes=self.reclaimable_bytes, detail=detail, cites=cite([self.row]))]
        gains = {margin.cause: margin.reclaim_bytes for margin in found.margins}
        told = [f"{name.replace('_', ' ')} {size(gain)}" for name, gain in gains.items() if gain]
        short = f"{'at most ' if found.assumed_full else ''}{size(found.short_bytes)} short; " if found.short_bytes else ""
        detail = f"{_SAYS[why]}; {short}reclaimable: {', '.join(told) or 'nothing'}"
        return [Cause(cause=why, bytes=gains.get(found.cause or "exhaustion"), detail=detail, cites=cite([self.row]))]

    @property
    def expandable(self) -> bool:
        """Whether expandable segments are on."""
        return settings_of(self.snapshot.settings).expandable

    @property
    def helps(self) -> list[str]:
        """What would have helped."""
        if self.fit is not None:
            return self.fit.helps
        return advice([self.why], settings_of(self.snapshot.settings)) if self.why is not None else []

    def told(self, state: AllocatorState) -> AllocatorState:
        """The allocator's state with what the snapshot adds to the message's figures."""
        found = self.fit
        eligible = found.eligible_largest_bytes if found is not None else self.row["largest_free_block_bytes"]
        return msgspec.structs.replace(
            state,
            reserved_bytes=total(self.pools, "reserved_bytes"),
            pending_bytes=total(self.pools, "pending_bytes"),
            inactive_bytes=total(self.pools, "inactive_bytes"),
            largest_free_block_bytes=eligible,
            why=self.why,
            also=tuple(found.also) if found is not None else (),
            margins=tuple(
                FitMargin(cause=m.cause, reclaim_bytes=m.reclaim_bytes, sufficient=m.sufficient)
                for m in (found.margins if found is not None else [])
            ),
            helps=tuple(self.helps),
            pools=tuple(map(_pool, self.pools[:MAX_POOLS])),
            components=self.held,
            cites=cite([self.row]),
        )


def _pool(pool: Pool) -> AllocatorPool:
    return AllocatorPool(
        pool=pool.pool,
        stream=pool.stream,
        size_class=pool.size_class,
        reserved_bytes=pool.reserved_bytes,
        active_bytes=pool.allocated_bytes + pool.pending_bytes,
        inactive_bytes=pool.inactive_bytes,
        releasable_bytes=pool.releasable_bytes,
        largest_free_block_bytes=pool.largest_free_block_bytes,
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
