"""Expandable segments: address ranges of which pages are mapped as they are needed, and unmapped by a flush."""

from typing import TYPE_CHECKING

from oomctl.analyzers.allocator.model.blocks import Block, FreeBlocks
from oomctl.analyzers.allocator.rules import page_bytes

if TYPE_CHECKING:
    from oomctl.analyzers.allocator.model.allocator import Allocator

RANGE_BYTES = 1 << 40
"""PyTorch reserves nine eighths of the device's memory; here it is enough that no range ends."""


class Expandable:
    """What the allocator does otherwise where expandable_segments is on.

    Args:
        owner: Whose segments they are.
    """

    def __init__(self, owner: "Allocator") -> None:
        self._owner = owner

    def best(self, blocks: FreeBlocks, place: int, stream: int) -> Block | None:
        """Of the free blocks from a position on, the first that could not grow into a longer one than the next.

        Where the setting was turned off meanwhile, the first that is of a segment of the other kind.
        """
        block = blocks.at[blocks.order[place][2]]
        for following in range(place + 1, len(blocks.order)):
            owner, _, address = blocks.order[following]
            if owner != stream:
                break
            other = blocks.at[address]
            if self._owner.settings.expandable:
                if not block.expandable or _could_be(other) >= _could_be(block):
                    break
            elif not block.expandable:
                break
            block = other
        return None if block.expandable and not self._owner.settings.expandable else block

    def grow(self, blocks: FreeBlocks, stream: int, size: int) -> Block | None:
        """A free block of that size, made by mapping pages behind the first range that has room."""
        block: Block | None = self._candidate(blocks, stream, size)
        assert block is not None
        if not block.mapped:
            block = self._map(block, min(block.size, size))
        while block is not None and block.size < size:
            following = block.next
            assert following is not None  # _candidate saw room for all of it
            block = self._map(following, min(size - block.size, following.size))
        if block is not None:
            blocks.remove(block)
        return block

    def unmap(self, block: Block) -> None:
        """Give whole pages of a free block back; what lies before and behind them stays free."""
        page = page_bytes("small" if block.pool.small else "large")
        start = block.address + (block.origin - block.address) % page
        end = block.address + block.size - (block.address + block.size - block.origin) % page
        if end <= start:
            return
        block.pool.remove(block)
        if start > block.address:
            head = self._part(block, block.address, start - block.address)
            head.prev, head.next = block.prev, block
            if head.prev is not None:
                head.prev.next = head
            block.prev = head
            block.pool.add(head)
        if end < block.address + block.size:
            tail = self._part(block, end, block.address + block.size - end)
            tail.prev, tail.next = block, block.next
            if tail.next is not None:
                tail.next.prev = tail
            block.next = tail
            block.pool.add(tail)
        block.address, block.size, block.mapped = start, end - start, False
        self._owner.driver.give_back(start, block.size)
        self._owner.reserved("segment_unmap", start, block.size, block)
        for other in (block.prev, block.next):
            self._owner.merge(block, other)
        block.pool.add(block)

    def _candidate(self, blocks: FreeBlocks, stream: int, size: int) -> Block:
        for owner, address in blocks.unmapped:
            if owner != stream:
                continue
            block = blocks.ranges[address]
            if block.prev is not None and block.prev.idle:
                block = block.prev
            room = 0
            at: Block | None = block
            while at is not None and room < size and at.idle:
                room += at.size
                at = at.next
            if room >= size:
                return block
        length = max(RANGE_BYTES, 2 * size)
        address = self._owner.driver.reserve(length)
        block = Block(address, length, stream, blocks, True, origin=address, mapped=False)
        blocks.add(block)
        return block

    def _map(self, block: Block, size: int) -> Block | None:
        """Map the first pages of an unmapped range; returns the free block that they became a part of."""
        page = page_bytes("small" if block.pool.small else "large")
        taken = min(-(-size // page) * page, block.size)
        if not self._owner.driver.map(block.address, taken, page):
            return None
        block.pool.remove(block)
        address = block.address
        if taken < block.size:
            rest = self._part(block, block.address + taken, block.size - taken)
            rest.prev, rest.next, rest.mapped = block, block.next, False
            if rest.next is not None:
                rest.next.prev = rest
            block.next, block.size = rest, taken
            block.pool.add(rest)
        block.mapped = True
        self._owner.reserved("segment_map", address, taken, block)
        for other in (block.prev, block.next):
            self._owner.merge(block, other)
        block.pool.add(block)
        return block

    @staticmethod
    def _part(block: Block, address: int, size: int) -> Block:
        return Block(address, size, block.stream, block.pool, True, origin=block.origin)


def _could_be(block: Block) -> int:
    """What a block could become if the range behind it were mapped."""
    following = block.next
    return block.size + (following.size if following is not None and not following.mapped else 0)
