"""The records of one step, which lie ready in memory and go into the ring together."""

import time
from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent.kinds import KV_POOL, STEP
from oomctl.collectors.agent.layout import NULL_U8, SLOT_BYTES
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
    __slots__ = ("_earlier", "_mismatch", "_more", "_pools", "_ring", "_views", "flight", "more_due_ns")

    def __init__(
        self,
        ring: Ring,
        pools: list[PoolTotals],
        mismatch: Callable[[PoolTotals], None],
        more: Callable[[int, Any, int], None],
    ) -> None:
        self._ring = ring
        self._pools = pools
        self._mismatch = mismatch
        self._more = more
        self.flight: Flight | None = None
        self._earlier: list[Flight] = []
        self.more_due_ns = 0
        self._views = views = SlotViews(1 + len(pools), SHIFT)
        views.bodies[0][:] = STEP.pack(STEP.word, 0, 0, 0, *STEP.nulls, b"")
        for pool, body in zip(pools, views.bodies[1:], strict=True):
            body[:] = pool.slot()

    def forget(self) -> None:
        """Nothing is in flight any more."""
        self.flight = None
        self._earlier.clear()

    def overlap(self, flight: Flight) -> None:
        """Another step is scheduled before this one has landed."""
        self._earlier = [*self._earlier[1 - MAX_FLIGHTS :], flight]

    def count(self, counters: bytes) -> None:
        """The last four values of KV_POOL from now on, packed."""
        for number in range(len(self._pools)):
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
        views = self._views
        words, shifted = views.words, views.shifted_longs
        _, step_id, prefill, decode, cached, running, waiting, positions, started_ns = flight
        shifted[STEP_ID] = step_id
        # As STEP and KV_POOL have them, one after the other.
        at = PREFILL
        words[at] = prefill
        words[at + 1] = decode
        words[at + 2] = cached
        words[at + 3] = running
        words[at + 4] = waiting
        words[at + 5] = positions
        took_us = (now_ns - started_ns) // 1000
        words[at + 6] = took_us if took_us < _LONGEST_US else _LONGEST_US
        views.whole[_DUMPED] = dumped
        at, long_at = _FREE, _ALLOCATED
        for pool in self._pools:
            free = pool.queue.num_free_blocks
            if free != pool.expected_free:
                self._mismatch(pool)
            used = pool.total - free
            words[at] = free
            words[at + 1] = used
            shifted[long_at] = pool.freed + used
            shifted[long_at + 1] = pool.freed
            at += WORDS
            long_at += LONGS
        active = views.put(ring, now_ns)
        if now_ns > self.more_due_ns:
            self._more(step_id, result, now_ns)
        return active

    def _landed(self, output: Any) -> Flight | None:
        """The flight of a step after which others were scheduled."""
        for number, flight in enumerate(self._earlier):
            if flight[0] is output:
                return self._earlier.pop(number)
        return None
