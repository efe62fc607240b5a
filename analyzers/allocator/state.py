"""Where an allocator's bytes are: by device, and by pool, stream and size class."""

from collections.abc import Iterable

import msgspec

from oomctl.analyzers.allocator.rules import page_bytes
from oomctl.schemas.heap import DEFAULT_POOL, Segment, Snapshot


class Pool(msgspec.Struct, kw_only=True):
    """Bytes of one pool: reserved = allocated + pending + inactive, of every segment that adds up.

    `releasable_bytes` is what a flush of the cache gives back: segments, or pages of expandable ones, without an active
    block. `split_bytes` is the rest of the inactive: holes between active blocks.
    """

    device: int
    pool: str
    private: bool
    stream: int
    size_class: str
    segments: int = 0
    blocks: int = 0
    reserved_bytes: int = 0
    allocated_bytes: int = 0
    pending_bytes: int = 0
    inactive_bytes: int = 0
    rounding_bytes: int = 0
    releasable_bytes: int = 0
    split_bytes: int = 0
    free_blocks: int = 0
    largest_free_block_bytes: int = 0


def pools(snapshot: Snapshot, device: int) -> list[Pool]:
    """The pools of a device, the largest first."""
    found: dict[tuple[object, ...], Pool] = {}
    for segment in snapshot.segments:
        if segment.device != device:
            continue
        key = (segment.pool, segment.stream, segment.size_class)
        if key not in found:
            found[key] = Pool(
                device=device,
                pool=f"{segment.pool[0]}.{segment.pool[1]}",
                private=segment.pool != DEFAULT_POOL,
                stream=segment.stream,
                size_class=segment.size_class,
            )
        _add(found[key], segment)
    return sorted(found.values(), key=lambda pool: (-pool.reserved_bytes, pool.pool, pool.stream, pool.size_class))


def total(parts: Iterable[Pool], name: str) -> int:
    """Sum of one of the pools' figures."""
    return sum(getattr(part, name) for part in parts)


def releasable(segment: Segment) -> int:
    """Bytes of it that a flush gives back to the driver: nothing of a private pool while its graph lives."""
    if segment.pool != DEFAULT_POOL:
        return 0
    if not segment.expandable:
        idle = all(block.state == "inactive" for block in segment.blocks)
        return segment.total_bytes if idle else 0
    page = page_bytes(segment.size_class)
    given = 0
    for block in segment.blocks:
        if block.state == "inactive":
            first = -(-(block.address - segment.address) // page)
            end = (block.address + block.size_bytes - segment.address) // page
            given += max(end - first, 0) * page
    return given


def _add(pool: Pool, segment: Segment) -> None:
    pool.segments += 1
    pool.blocks += len(segment.blocks)
    pool.reserved_bytes += segment.total_bytes
    inactive = 0
    for block in segment.blocks:
        if block.state == "active_allocated":
            pool.allocated_bytes += block.size_bytes
            if block.requested_bytes is not None:
                pool.rounding_bytes += max(block.size_bytes - block.requested_bytes, 0)
        elif block.state == "active_pending_free":
            pool.pending_bytes += block.size_bytes
        else:
            inactive += block.size_bytes
            pool.free_blocks += 1
            pool.largest_free_block_bytes = max(pool.largest_free_block_bytes, block.size_bytes)
    given = min(releasable(segment), inactive)
    pool.inactive_bytes += inactive
    pool.releasable_bytes += given
    pool.split_bytes += inactive - given
