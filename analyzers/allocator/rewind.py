"""The heap as it was after an event: the snapshot's own state, with the events since then undone.

Free neighbours are always merged, so the blocks in use and the segments around them tell every free block.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from oomctl.analyzers.allocator.model.settings import Settings, settings_of
from oomctl.analyzers.allocator.rules import LARGE_SEGMENT_BYTES, SMALL_BYTES, SMALL_SEGMENT_BYTES
from oomctl.schemas.heap import DEFAULT_POOL, NO_STACK, Block, History, PoolId, Segment, Snapshot, State

SizeClass = Literal["small", "large"]
CHANGES = frozenset(
    {"alloc", "free_requested", "free_completed", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap"}
)
"""Actions that change the heap."""


@dataclass(slots=True)
class _Live:
    requested: int
    state: State
    stack: int
    size: int | None
    """As the snapshot has it; None where the block is known from an event only."""


@dataclass(slots=True)
class _Range:
    size: int
    stream: int
    pool: PoolId
    size_class: SizeClass
    expandable: bool
    stack: int


def rewind(snapshot: Snapshot, device: int, index: int) -> Snapshot:
    """The device's heap after an event, without a history.

    Args:
        snapshot: With the device's history.
        device: Which; the others are left out.
        index: Of the event; -1 is before the first.
    """
    history = snapshot.histories[device]
    heap = _Heap(snapshot, device)
    heap.undo(history, index)
    heap.name(history, index)
    return replace(snapshot, segments=list(heap.segments(settings_of(snapshot.settings))), histories={}, problems=[])


def changed(history: History, index: int) -> bool:
    """Whether the heap is another than after an event."""
    return any(history.actions[n] in CHANGES for n in range(len(history) - 1, index, -1))


class _Heap:
    def __init__(self, snapshot: Snapshot, device: int) -> None:
        self._device = device
        self._live: dict[int, _Live] = {}
        self._ranges: dict[int, _Range] = {}
        for segment in snapshot.segments:
            if segment.device != device:
                continue
            self._ranges[segment.address] = _Range(
                segment.total_bytes, segment.stream, segment.pool, segment.size_class, segment.expandable, segment.stack
            )
            for block in segment.blocks:
                if block.state != "inactive":
                    self._live[block.address] = _Live(
                        block.requested_bytes or block.size_bytes, block.state, block.stack, block.size_bytes
                    )

    def undo(self, history: History, index: int) -> None:
        """Take back all events after one, the last first."""
        live = self._live
        after = slice(len(history) - 1, index if index >= 0 else None, -1)
        columns = (history.actions, history.addresses, history.sizes_bytes)
        n = len(history)
        for action, address, size in zip(*(column[after] for column in columns), strict=True):
            n -= 1
            if action == "free_completed":
                live[address] = _Live(size, "active_pending_free", NO_STACK, None)
            elif action == "free_requested":
                if address in live:
                    live[address].state = "active_allocated"
            elif action == "alloc":
                live.pop(address, None)
            elif action == "free":
                live[address] = _Live(size, "active_allocated", NO_STACK, None)
            else:
                self._undo_segment(history, n)

    def _undo_segment(self, history: History, n: int) -> None:
        action, address, size = history.actions[n], history.addresses[n], history.sizes_bytes[n]
        if action == "segment_alloc":
            self._ranges.pop(address, None)
        elif action == "segment_map":
            self._cut(address, size)
        elif action in ("segment_free", "segment_unmap"):
            pages = action == "segment_unmap"
            small = size % LARGE_SEGMENT_BYTES != 0 if pages else size <= SMALL_SEGMENT_BYTES
            kind: SizeClass = "small" if small else "large"
            pool = history.pools.get(n, DEFAULT_POOL)
            self._ranges[address] = _Range(size, max(history.streams[n], 0), pool, kind, pages, history.stacks[n])
            if pages:
                self._join(address)

    def name(self, history: History, index: int) -> None:
        """Find the allocations of blocks that are known from their free only."""
        unnamed = {address for address, live in self._live.items() if live.stack == NO_STACK}
        for n in range(index, -1, -1):
            if not unnamed:
                return
            if history.actions[n] == "alloc" and history.addresses[n] in unnamed:
                unnamed.discard(history.addresses[n])
                self._live[history.addresses[n]].stack = history.stacks[n]

    def segments(self, settings: Settings) -> Iterator[Segment]:
        """The segments, each filled with its blocks."""
        addresses = sorted(self._live)
        for start in sorted(self._ranges):
            home = self._ranges[start]
            end = start + home.size
            blocks: list[Block] = []
            at = start
            for place in range(bisect_right(addresses, start - 1), len(addresses)):
                address = addresses[place]
                if address >= end:
                    break
                if address < at:
                    continue  # the history does not fit the snapshot: what overlaps is left out
                if address > at:
                    blocks.append(_free(at, address - at))
                live = self._live[address]
                following = addresses[place + 1] if place + 1 < len(addresses) else end
                size = _size(live, home, min(following, end) - address, settings)
                blocks.append(Block(address, size, live.requested, live.state, live.stack))
                at = address + size
            if at < end:
                blocks.append(_free(at, end - at))
            yield Segment(
                self._device, start, home.size, home.stream, home.size_class, home.pool, home.expandable, home.stack,
                tuple(blocks),
            )  # fmt: skip

    def _cut(self, address: int, size: int) -> None:
        """Take mapped pages out of the range that holds them."""
        for start, home in self._ranges.items():
            if start <= address and address + size <= start + home.size:
                break
        else:
            return
        del self._ranges[start]
        if start < address:
            self._ranges[start] = replace(home, size=address - start)
        if address + size < start + home.size:
            self._ranges[address + size] = replace(home, size=start + home.size - address - size)

    def _join(self, address: int) -> None:
        """Join pages to the mapped ranges that they touch: an expandable segment is one range."""
        home = self._ranges[address]
        following = self._ranges.get(address + home.size)
        if following is not None and _same(following, home):
            del self._ranges[address + home.size]
            home = self._ranges[address] = replace(following, size=home.size + following.size)
        for start, other in self._ranges.items():
            if start + other.size == address and _same(other, home):
                del self._ranges[address]
                self._ranges[start] = replace(other, size=other.size + home.size)
                return


def _same(one: _Range, other: _Range) -> bool:
    """Whether mapped ranges that touch are of one segment."""
    return one.expandable and other.expandable and (one.stream, one.pool) == (other.stream, other.pool)


def _free(address: int, size: int) -> Block:
    return Block(address, size, 0, "inactive", NO_STACK)


def _size(live: _Live, home: _Range, room: int, settings: Settings) -> int:
    """Of a block of which only the request is known: a rest that the allocator would not have split off belongs to it."""
    if live.size is not None:
        return min(live.size, room)
    size = min(settings.block_bytes(live.requested), room)
    rest = room - size
    if home.size_class == "small" or home.expandable:
        return size
    return room if rest <= SMALL_BYTES or size >= settings.max_split_bytes else size
