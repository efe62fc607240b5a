"""The records of one step, which lie ready in memory and go into the ring together."""

from typing import Any
from zlib import adler32

from oomctl.collectors.agent.decode import offset_of
from oomctl.collectors.agent.kinds import KV_POOL, REQUEST, STEP
from oomctl.collectors.agent.layout import CHECKSUM, CONTROL_OFFSET, HEADER_BYTES, SLOT_BYTES, RecordKind
from oomctl.collectors.agent.pools import PoolTotals
from oomctl.collectors.agent.requests import Followed
from oomctl.collectors.agent.ring import Ring

Growth = list[tuple[Followed, int, int, int, int, int, int]]
"""Requests that got blocks: who, the event, how many it holds then, how many of them are new, the tokens that it was
scheduled for, and its computed and output tokens."""
Flight = tuple[Any, int, int, int, int, int, int, int, int, Growth]
"""A step between its scheduling and its output: its SchedulerOutput, step_id, prefill, decode and cached tokens, running
and waiting requests, logits positions, when it began, and who grew. Bare, because a class of its own is slow to make."""
MAX_GROWN = 30
"""Of more in one step, the others are written one by one."""

_LONGS, _WORDS = SLOT_BYTES // 8, SLOT_BYTES // 4
_PLACE, _NOW, _SPILLED = 8 // 8, 16 // 8, 24 // 4
"""Where `layout.SLOT_HEAD` has them, in a slot of 8-byte and of 4-byte numbers."""


def _at(kind: RecordKind, name: str, size: int, shift: int = 0) -> int:
    """Which of a slot's numbers of that size a value is, where they begin `shift` bytes behind the slot."""
    start: int = offset_of(kind, name).start
    index, rest = divmod(start - shift, size)
    assert not rest, f"{kind.name}.{name} does not lie so"
    return index


# The 8-byte values of STEP and KV_POOL are 4 bytes off a multiple of 8, all values of REQUEST 2 bytes.
_STEP_ID = _at(STEP, "step_id", 8, shift=4)
_PREFILL = _at(STEP, "prefill_tokens", 4)
_DUMPED = _at(STEP, "dumped", 1)
_FREE = _WORDS + _at(KV_POOL, "free_blocks", 4)
_ALLOCATED = _LONGS + _at(KV_POOL, "allocated_blocks", 8, shift=4)
_COUNTERS = SLOT_BYTES + _at(KV_POOL, "preempted_requests", 1)
_EVENT = _at(REQUEST, "event", 1)
_GROWN_STEP_ID = _at(REQUEST, "step_id", 8, shift=2)
_SCHEDULED = _at(REQUEST, "scheduled_tokens", 4, shift=2)


class StepSlots:
    """Fills the records of a step value by value through views of their bytes as numbers, and only what changes.

    That takes 7 us for a STEP and a KV_POOL, with checksums and the copy into the ring, when the caches are cold; packing,
    joining and copying them took 14. The step stands first, its pools next, then the requests that grew in it.

    Args:
        ring: Where to.
        pools: Whose records follow the step's.
    """

    __slots__ = (
        "_bodies", "_bytes", "_counters", "_longs", "_longs_2", "_longs_4", "_pools", "_ring", "_words", "_words_2",
    )  # fmt: skip

    def __init__(self, ring: Ring, pools: list[PoolTotals]) -> None:
        self._ring = ring
        self._pools = pools
        self._bytes = whole = memoryview(bytearray((1 + len(pools) + MAX_GROWN) * SLOT_BYTES))
        self._longs, self._words = whole.cast("q"), whole.cast("I")
        self._longs_4 = whole[4:-4].cast("q")
        self._longs_2, self._words_2 = whole[2:-6].cast("q"), whole[2:-2].cast("i")
        self._bodies = [whole[at + CHECKSUM.size : at + SLOT_BYTES] for at in range(0, len(whole), SLOT_BYTES)]
        self._bodies[0][:] = STEP.pack(STEP.word, 0, 0, 0, *STEP.nulls, b"")
        for pool, body in zip(pools, self._bodies[1:], strict=False):
            body[:] = pool.slot()
        self._counters = b""

    def put(self, flight: Flight, now_ns: int, counters: bytes, dumped: int) -> bool:
        """Write a step that is over, its pools, and who grew in it.

        Args:
            flight: The step.
            now_ns: On the monotonic clock.
            counters: The last four values of KV_POOL, packed.
            dumped: 1 if it failed, else NULL.

        Returns:
            Whether the ring is to be written on.
        """
        words, longs = self._words, self._longs_4
        _, step_id, prefill, decode, cached, running, waiting, positions, started_ns, growth = flight
        longs[_STEP_ID] = step_id
        # As STEP and KV_POOL have them, one after the other.
        at = _PREFILL
        words[at] = prefill
        words[at + 1] = decode
        words[at + 2] = cached
        words[at + 3] = running
        words[at + 4] = waiting
        words[at + 5] = positions
        words[at + 6] = (now_ns - started_ns) // 1000
        self._bytes[_DUMPED] = dumped
        if counters is not self._counters:
            self._count(counters)
        at, long_at, end = _FREE, _ALLOCATED, 1
        for pool in self._pools:
            free = pool.queue.num_free_blocks
            used = pool.total - free
            words[at] = free
            words[at + 1] = used
            longs[long_at] = pool.freed + used
            longs[long_at + 1] = pool.freed
            at += _WORDS
            long_at += _LONGS
            end += 1
        if growth:
            end = self._grew(growth, step_id)
        # Seal them all, and copy them into the ring.
        ring, heads, bodies = self._ring, self._longs, self._bodies
        place, spilled = ring.place, ring.spilled
        at = long_at = slot = 0
        while slot < end:
            place += 1
            heads[long_at + _PLACE] = place
            heads[long_at + _NOW] = now_ns
            words[at + _SPILLED] = spilled
            words[at] = adler32(bodies[slot])
            at += _WORDS
            long_at += _LONGS
            slot += 1
        view, at = ring.view, (ring.place + 1) % ring.capacity
        if view is None or at + end > ring.capacity:
            return ring.extend(self._bytes[: end * SLOT_BYTES])
        # As `extend` does it, which costs 1 us more to call.
        at = HEADER_BYTES + at * SLOT_BYTES
        size = end * SLOT_BYTES
        view[at : at + size] = self._bytes[:size]
        ring.place = place
        return view[CONTROL_OFFSET] == 1

    def _grew(self, growth: Growth, step_id: int) -> int:
        """Fill the slots of requests that got blocks; where they end."""
        longs, words, bodies = self._longs_2, self._words_2, self._bodies
        slot = 1 + len(self._pools)
        for followed, event, blocks, delta, tokens, computed, outputs in growth:
            if not followed.slot or slot == len(bodies):
                followed.blocks -= delta
                followed.write(self._ring, event, step_id, delta, scheduled=tokens)
                continue
            bodies[slot][:] = followed.slot
            self._bytes[slot * SLOT_BYTES + _EVENT] = event
            longs[slot * _LONGS + _GROWN_STEP_ID] = step_id
            # As REQUEST has them, one after the other.
            at = slot * _WORDS + _SCHEDULED
            words[at] = tokens
            words[at + 1] = computed
            words[at + 2] = outputs
            words[at + 3] = blocks
            words[at + 4] = delta
            slot += 1
        return slot

    def _count(self, counters: bytes) -> None:
        self._counters = counters
        for number in range(len(self._pools)):
            at = _COUNTERS + number * SLOT_BYTES
            self._bytes[at : at + len(counters)] = counters
