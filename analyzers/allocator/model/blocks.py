"""Blocks and the lists of free ones, in the allocator's own order."""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from oomctl.schemas.heap import NO_STACK, PoolId

PoolKey = tuple[PoolId, bool]
"""(pool, small)."""


@dataclass(slots=True, eq=False)
class Block:
    """A piece of a segment, linked to its neighbours. An expandable segment's range of addresses is a chain too, partly
    unmapped."""

    address: int
    size: int
    stream: int
    pool: "FreeBlocks"
    expandable: bool = False
    origin: int = 0
    """Of an expandable one: an address from which its segment's pages are counted."""
    mapped: bool = True
    allocated: bool = False
    pending: bool = False
    requested: int = 0
    stack: int = NO_STACK
    prev: "Block | None" = None
    next: "Block | None" = None
    born: int = 0
    """The pool's count of searches when it became free: its age is how many came since."""

    @property
    def idle(self) -> bool:
        """Whether it serves nobody."""
        return not self.allocated and not self.pending

    @property
    def whole(self) -> bool:
        """Whether it is a segment of its own."""
        return self.prev is None and self.next is None


@dataclass(slots=True, eq=False)
class FreeBlocks:
    """The free blocks of one pool and size class, ordered by stream, size and address; and unmapped ranges by address."""

    key: PoolKey
    order: list[tuple[int, int, int]] = field(default_factory=list)
    at: dict[int, Block] = field(default_factory=dict)
    unmapped: list[tuple[int, int]] = field(default_factory=list)
    ranges: dict[int, Block] = field(default_factory=dict)
    searches: int = 0

    @property
    def small(self) -> bool:
        """Whether it serves requests of up to 1 MiB."""
        return self.key[1]

    def add(self, block: Block) -> None:
        """A block that became free, or a range that became unmapped."""
        if block.mapped:
            block.born = self.searches
            insort(self.order, (block.stream, block.size, block.address))
            self.at[block.address] = block
        else:
            insort(self.unmapped, (block.stream, block.address))
            self.ranges[block.address] = block

    def remove(self, block: Block) -> None:
        """A block that is no longer free, or a range that is no longer unmapped."""
        if block.mapped:
            del self.order[bisect_left(self.order, (block.stream, block.size, block.address))]
            del self.at[block.address]
        else:
            del self.unmapped[bisect_left(self.unmapped, (block.stream, block.address))]
            del self.ranges[block.address]

    def from_size(self, stream: int, size: int) -> int:
        """Position of the first block of a stream that is at least so large."""
        return bisect_left(self.order, (stream, size, 0))
