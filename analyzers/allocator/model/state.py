"""A heap into the model, and out of it again."""

from dataclasses import replace
from itertools import groupby

from oomctl.analyzers.allocator.model.allocator import Allocator
from oomctl.analyzers.allocator.model.blocks import Block
from oomctl.analyzers.allocator.model.expandable import RANGE_BYTES
from oomctl.schemas import heap
from oomctl.schemas.heap import NO_STACK, PoolId, Segment, Snapshot


def adopt(allocator: Allocator, snapshot: Snapshot, device: int) -> None:
    """Give a fresh model the segments and blocks of a device, as they lie."""
    segments = sorted(
        (s for s in snapshot.segments if s.device == device), key=lambda s: (s.expandable, _key(s), s.address)
    )
    for segment in segments:
        _chain(allocator, segment)
    expandable = [segment for segment in segments if segment.expandable]
    for _, ranges in groupby(expandable, key=_key):
        _unmapped(allocator, list(ranges))


def adoptable(snapshot: Snapshot, device: int) -> bool:
    """Whether a device's blocks fill their segments and no segment overlaps another, as the allocator keeps them."""
    at = -1
    for segment in sorted((s for s in snapshot.segments if s.device == device), key=lambda s: s.address):
        if segment.address < at:
            return False
        at = segment.address
        for block in segment.blocks:
            if block.address != at or block.size_bytes <= 0:
                return False
            at += block.size_bytes
        if at != segment.address + segment.total_bytes or at == segment.address:
            return False
    return True


def state(allocator: Allocator, device: int = 0) -> list[Segment]:
    """The model's segments; an expandable segment's mapped ranges are one each, as in a snapshot."""
    blocks = {id(block): block for block in allocator.live.values()}
    for pool in allocator.pools.values():
        blocks |= {id(block): block for block in pool.at.values()}
    found: list[Segment] = []
    for block in sorted(blocks.values(), key=lambda each: each.address):
        told = heap.Block(
            block.address,
            block.size,
            block.requested,
            "inactive" if block.idle else "active_pending_free" if block.pending else "active_allocated",
            block.stack,
        )
        if block.prev is not None and block.prev.mapped:
            last = found[-1]
            found[-1] = replace(last, total_bytes=last.total_bytes + block.size, blocks=(*last.blocks, told))
            continue
        pool_id, small = block.pool.key
        segment = Segment(
            device=device,
            address=block.address,
            total_bytes=block.size,
            stream=block.stream,
            size_class="small" if small else "large",
            pool=pool_id,
            expandable=block.expandable,
            stack=NO_STACK,
            blocks=(told,),
        )
        found.append(segment)
    return found


def _key(segment: Segment) -> tuple[PoolId, str, int]:
    return segment.pool, segment.size_class, segment.stream


def _chain(allocator: Allocator, segment: Segment) -> None:
    blocks = allocator.pool(segment.pool, segment.size_class == "small")
    last: Block | None = None
    for told in segment.blocks:
        block = Block(told.address, told.size_bytes, segment.stream, blocks, segment.expandable, segment.address, prev=last)
        if last is not None:
            last.next = block
        last = block
        if told.state == "inactive":
            blocks.add(block)
            continue
        block.allocated = told.state == "active_allocated"
        block.pending = not block.allocated
        block.requested, block.stack = told.requested_bytes or told.size_bytes, told.stack
        allocator.live[block.address] = block
        allocator.active_bytes += block.size
    allocator.reserved_bytes += segment.total_bytes


def _unmapped(allocator: Allocator, ranges: list[Segment]) -> None:
    """Put the unmapped rest of the address range behind each mapped one; what lay before the first is not known."""
    known = {(pool.key, address): block for pool in allocator.pools.values() for address, block in pool.at.items()}
    known |= {(block.pool.key, block.address): block for block in allocator.live.values()}
    for number, segment in enumerate(ranges):
        key = (segment.pool, segment.size_class == "small")
        first, last = known[key, segment.blocks[0].address], known[key, segment.blocks[-1].address]
        end = segment.address + segment.total_bytes
        following = ranges[number + 1] if number + 1 < len(ranges) else None
        near = following is not None and following.address - end < RANGE_BYTES
        room = following.address - end if following is not None and near else RANGE_BYTES
        if room == 0:
            continue
        rest = Block(end, room, segment.stream, first.pool, True, segment.address, mapped=False, prev=last)
        last.next = rest
        if following is not None and near:
            rest.next = known[key, following.blocks[0].address]
            rest.next.prev = rest
        first.pool.add(rest)
