"""The records of one step, which lie ready in memory and go into the ring together."""

import time
from collections.abc import Callable
from typing import Any
from zlib import adler32

from oomctl.collectors.agent.kinds import KV_POOL, STEP
from oomctl.collectors.agent.layout import CONTROL_OFFSET, HEADER_BYTES, NULL_U8, SLOT_BYTES
from oomctl.collectors.agent.pools import PoolTotals
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.slot_views import LONGS, WORDS, SlotViews, index_of

Flight = tuple[Any, int, int, int, int, int, int, int, int]
"""A step between its scheduling and its output: its SchedulerOutput, step_id, prefill, decode and cached tokens, running
and waiting requests, logits positions, and when it began. Bare, because a class of its own is slow to make."""
MAX_FLIGHTS = 16
"""Steps that may be between schedule and update_from_output; more have lost their end."""

_monotonic_ns = time.monotonic_ns
_LONGEST_US = 2**31 - 1

SHIFT = 4
"""The 8-byte values of STEP and KV_POOL are 4 bytes off a multiple of 8."""
STEP_ID = index_of(STEP, "step_id", 8, SHIFT)
PREFILL = index_of(STEP, "prefill_tokens", 4)
RUNNING = index_of(STEP, "running_requests", 4)
_DUMPED = index_of(STEP, "dumped", 1)
_FREE = WORDS + index_of(KV_POOL, "free_blocks", 4)
_ALLOCATED = LONGS + index_of(KV_POOL, "allocated_blocks", 8, SHIFT)
_OFFSETS = STEP_ID, PREFILL, _FREE, _ALLOCATED, WORDS, LONGS, SLOT_BYTES, HEADER_BYTES, CONTROL_OFFSET
assert _OFFSETS == (3, 9, 41, 23, 32, 16, 128, 4096, 1024), "`StepSlots.end` has them as numbers"
_COUNTERS = SLOT_BYTES + index_of(KV_POOL, "preempted_requests", 1)


class StepSlots:
    """Holds the steps in flight, and writes each as it lands: the step's record, then those of the pools.

    Args:
        ring: Where to.
        pools: Whose records follow the step's.
        mismatch: Told of a pool whose blocks moved on a way that is not known.
        more: Told of a step that landed after `more_due_ns`: its id, the model runner's output, and the monotonic clock.

    Attributes:
        flight: The step that was scheduled last, until it lands.
        more_due_ns: When `more` is wanted next, on the monotonic clock.
    """

    # Slots lie in one piece.
    __slots__ = (
        "_earlier", "_main", "_mismatch", "_more", "_others", "_pool", "_ring", "_step", "_views", "flight", "more_due_ns",
    )  # fmt: skip

    def __init__(
        self,
        ring: Ring,
        pools: list[PoolTotals],
        mismatch: Callable[[PoolTotals], None],
        more: Callable[[int, Any, int], None],
    ) -> None:
        self._ring = ring
        self._main, *self._others = pools
        self._mismatch = mismatch
        self._more = more
        self.flight: Flight | None = None
        self._earlier: list[Flight] = []
        self.more_due_ns = 0
        self._views = views = SlotViews(1 + len(pools), SHIFT)
        views.bodies[0][:] = STEP.pack(STEP.word, 0, 0, 0, *STEP.nulls, b"")
        for pool, body in zip(pools, views.bodies[1:], strict=True):
            body[:] = pool.slot()
        self._step, self._pool, *_ = views.bodies

    def forget(self) -> None:
        """Nothing is in flight any more."""
        self.flight = None
        self._earlier.clear()

    def overlap(self, flight: Flight) -> None:
        """Another step is scheduled before this one has landed."""
        self._earlier = [*self._earlier[1 - MAX_FLIGHTS :], flight]

    def count(self, counters: bytes) -> None:
        """The last four values of KV_POOL from now on, packed."""
        for number in range(1 + len(self._others)):
            at = _COUNTERS + number * SLOT_BYTES
            self._views.whole[at : at + len(counters)] = counters

    def end(self, output: Any, result: Any, dumped: int = NULL_U8) -> bool:
        """A step is over, or failed: write its figures, and those of the pools.

        Args:
            output: As it began; one that never began is passed over.
            result: The model runner's output.
            dumped: 1 if it failed, else NULL.

        Returns:
            Whether the ring is to be written on.
        """
        ring, flight = self._ring, self.flight
        if flight is not None and flight[0] is output:
            self.flight = None
        elif (flight := self._landed(output)) is None:
            return ring.active
        now_ns = _monotonic_ns()
        views, pool = self._views, self._main
        words, shifted, longs, whole = views.words, views.shifted_longs, views.longs, views.whole
        _, step_id, prefill, decode, cached, running, waiting, positions, started_ns = flight
        took_us = (now_ns - started_ns) // 1000
        # Bare numbers, and no loop: what these would read besides takes 3 us of 18. They are those of `_OFFSETS`.
        shifted[3] = step_id
        words[9] = prefill
        words[10] = decode
        words[11] = cached
        words[12] = running
        words[13] = waiting
        words[14] = positions
        words[15] = took_us if took_us < _LONGEST_US else _LONGEST_US
        free = pool.queue.num_free_blocks
        if free != pool.expected_free:
            self._mismatch(pool)
        used = pool.total - free
        words[41] = free
        words[42] = used
        shifted[23] = pool.freed + used
        shifted[24] = pool.freed
        if self._others or dumped != NULL_U8:
            active = self._put_all(now_ns, dumped)
        else:
            # As `SlotViews.put` has it.
            place, spilled = ring.place + 1, ring.spilled
            at = 4096 + place % ring.capacity * 128
            longs[1] = place
            longs[2] = now_ns
            words[6] = spilled
            words[0] = adler32(self._step)
            longs[17] = place + 1
            longs[18] = now_ns
            words[38] = spilled
            words[32] = adler32(self._pool)
            view = ring.view
            if view is None or at + 256 > len(view):
                active = ring.extend(whole)
            else:
                view[at : at + 256] = whole
                ring.place = place + 1
                active = view[1024] == 1
        if now_ns > self.more_due_ns:
            self._more(step_id, result, now_ns)
        return active

    def _put_all(self, now_ns: int, dumped: int) -> bool:
        """Of a step that failed, or of an engine with several pools."""
        views = self._views
        views.whole[_DUMPED] = dumped
        for number, pool in enumerate(self._others, start=1):
            free = pool.queue.num_free_blocks
            if free != pool.expected_free:
                self._mismatch(pool)
            used, at, long_at = pool.total - free, _FREE + number * WORDS, _ALLOCATED + number * LONGS
            views.words[at], views.words[at + 1] = free, used
            views.shifted_longs[long_at], views.shifted_longs[long_at + 1] = pool.freed + used, pool.freed
        active = views.put(self._ring, now_ns)
        views.whole[_DUMPED] = NULL_U8
        return active

    def _landed(self, output: Any) -> Flight | None:
        """The flight of a step after which others were scheduled."""
        for number, flight in enumerate(self._earlier):
            if flight[0] is output:
                return self._earlier.pop(number)
        return None
