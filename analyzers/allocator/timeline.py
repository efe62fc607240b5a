"""The history replayed: allocated and reserved after each event, anchored at the state that the snapshot ends with."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

import msgspec

from oomctl.analyzers.allocator.model.settings import settings_of
from oomctl.analyzers.allocator.rules import ROUND_BYTES
from oomctl.schemas.heap import History, Snapshot

_FREES = ("free_completed", "free")
_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


@dataclass(slots=True)
class Timeline:
    """Bytes after each event, and where they peak; pending blocks count as allocated, as the allocator's `active` does."""

    allocated_bytes: Sequence[int]
    reserved_bytes: Sequence[int]
    before: tuple[int, int]
    """The same two before the first event."""
    peak: int
    """Index of the first event after which allocated was highest; -1 where it was higher before the first."""

    def at(self, n: int) -> tuple[int, int]:
        """(allocated, reserved) after an event; -1 is before the first."""
        return (self.allocated_bytes[n], self.reserved_bytes[n]) if n >= 0 else self.before


class Holder(msgspec.Struct):
    """Live memory of one stack."""

    stack: int
    bytes: int
    blocks: int


def replay(snapshot: Snapshot, device: int) -> Timeline | None:
    """The timeline of a device; None without events. Bytes are rounded; unsplit rests are not seen."""
    history = snapshot.histories.get(device)
    if history is None:
        return None
    segments = [segment for segment in snapshot.segments if segment.device == device]
    active_end = sum(b.size_bytes for s in segments for b in s.blocks if b.state != "inactive")
    reserved_end = sum(segment.total_bytes for segment in segments)
    settings = settings_of(snapshot.settings)
    sizes: Iterable[int] = history.sizes_bytes
    if any(settings.divisions):
        sizes = [settings.block_bytes(max(size, 0)) for size in sizes]
    up, blocks = ROUND_BYTES - 1, -ROUND_BYTES
    level = 0
    levels = [
        level := level + (size + up & blocks)
        if action == "alloc"
        else level - (size + up & blocks)
        if action in _FREES
        else level
        for action, size in zip(history.actions, sizes, strict=True)
    ]
    older = active_end - level
    if older:
        levels = [level + older for level in levels]
    first, reserved = _steps(history, reserved_end)
    highest = max(levels)
    return Timeline(levels, reserved, (older, first), levels.index(highest) if highest >= older else -1)


def holders_at_end(snapshot: Snapshot, device: int) -> list[Holder]:
    """Who holds the active blocks of the snapshot, the largest first; a block without a stack has that of its alloc."""
    late = snapshot.late_stacks(device)
    held: dict[int, Holder] = {}
    for segment in snapshot.segments:
        if segment.device != device:
            continue
        for block in segment.blocks:
            if block.state != "inactive":
                _hold(held, late.get(block.address, block.stack), block.size_bytes)
    return _sorted(held)


def _steps(history: History, end: int) -> "tuple[int, array[int]]":
    """Reserved bytes before the first event and after each: segments come and go seldom, and in between nothing changes."""
    moves = list(compress(range(len(history)), map(_RESERVES.__contains__, history.actions)))
    level = first = end - sum(_RESERVES[history.actions[n]] * history.sizes_bytes[n] for n in moves)
    levels, at = array("q"), 0
    for n in moves:
        levels += array("q", [level]) * (n - at)
        level += _RESERVES[history.actions[n]] * history.sizes_bytes[n]
        at = n
    return first, levels + array("q", [level]) * (len(history) - at)


def _hold(held: dict[int, Holder], stack: int, size: int) -> None:
    holder = held.get(stack)
    if holder is None:
        held[stack] = Holder(stack, size, 1)
    else:
        holder.bytes += size
        holder.blocks += 1


def _sorted(held: dict[int, Holder]) -> list[Holder]:
    return sorted(held.values(), key=lambda holder: (-holder.bytes, holder.stack))
