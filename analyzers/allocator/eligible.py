"""What of a heap may serve a request: its pool, the block that it would get, the pages that would still be mapped."""

from typing import TYPE_CHECKING, Literal

from oomctl.analyzers.allocator.rules import LARGE_SEGMENT_BYTES, page_bytes
from oomctl.schemas.heap import DEFAULT_POOL, PoolId, Snapshot

if TYPE_CHECKING:
    from oomctl.analyzers.allocator.fit import Request

SizeClass = Literal["small", "large"]
UNTOLD_POOL: PoolId = (-1, -1)


def captured_into(snapshot: Snapshot, device: int) -> PoolId:
    """The pool that a capture fills where no entry tells it: the only private one, or one that has nothing yet."""
    private = {segment.pool for segment in snapshot.segments if segment.device == device and segment.pool != DEFAULT_POOL}
    return private.pop() if len(private) == 1 else UNTOLD_POOL


def to_map(snapshot: Snapshot, request: "Request", block_bytes: int, size_class: SizeClass) -> int:
    """Bytes of pages that an expandable segment still needs for a block: its free end serves as the beginning."""
    tails = [
        segment.blocks[-1].size_bytes
        for segment in snapshot.segments
        if segment.expandable
        and (segment.device, segment.pool, segment.stream, segment.size_class)
        == (request.device, request.pool, request.stream, size_class)
        and segment.blocks
        and segment.blocks[-1].state == "inactive"
    ]
    page = page_bytes(size_class)
    return -(-max(block_bytes - max(tails, default=0), 0) // page) * page


def largest_usable(snapshot: Snapshot, request: "Request", block_bytes: int, size_class: str) -> int:
    """The largest free block that the allocator would hand to this request; max_split_size bars some."""
    limit = snapshot.settings.get("max_split_size", -1)
    bars = size_class == "large" and type(limit) is int and limit > 0
    best = 0
    for segment in snapshot.segments:
        key = (segment.device, segment.pool, segment.stream, segment.size_class)
        if key != (request.device, request.pool, request.stream, size_class):
            continue
        for block in segment.blocks:
            if block.state != "inactive" or block.size_bytes <= best:
                continue
            if bars and not segment.expandable and isinstance(limit, int):
                if block_bytes < limit <= block.size_bytes:
                    continue
                if block_bytes >= limit and block.size_bytes >= block_bytes + LARGE_SEGMENT_BYTES:
                    continue
            best = block.size_bytes
    return best
