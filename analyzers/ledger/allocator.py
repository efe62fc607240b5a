"""What PyTorch's caching allocator counts as allocated for a list of tensors."""

from bisect import bisect_left, insort
from collections.abc import Iterable

from oomctl.analyzers.allocator.rules import SMALL_BYTES, rounded, segment_bytes

MIB = 2**20


def allocated_bytes(sizes: Iterable[int]) -> int:
    """Bytes that `memory_allocated` shows after tensors of these sizes were made in this order and none was freed.

    Small ones (up to 1 MiB) are rounded to 512 B. Larger ones take the smallest free piece that holds them, or a new
    segment: 20 MiB below 10 MiB, else rounded up to 2 MiB. What remains is split off if it is more than 1 MiB; if
    not, it counts as allocated. Source: PyTorch c10/cuda/CUDACachingAllocator.cpp (`round_size`, `get_allocation_size`,
    `should_split`), the native allocator without expandable segments.

    >>> allocated_bytes([1])
    512
    >>> allocated_bytes([10 * MIB + 1]) // MIB  # the remainder of the 12 MiB segment is split off
    10
    >>> allocated_bytes([11 * MIB + 1]) // MIB  # here it is less than 1 MiB, and stays
    12
    """
    own = CachingAllocator()
    for size in sizes:
        own.take(size)
    return own.allocated_bytes


class CachingAllocator:
    """The state of one device's allocator: what is allocated, and the free pieces of more than 1 MiB that it caches."""

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self._free: list[int] = []

    def take(self, size: int) -> int:
        """Allocate; returns what counts as allocated for it."""
        taken = rounded(size)
        if taken > SMALL_BYTES:
            taken = self._piece(taken)
        self.allocated_bytes += taken
        return taken

    def give_back(self, taken: int) -> None:
        """Free what `take` returned; it stays cached, whole, for the next that fits."""
        self.allocated_bytes -= taken
        if taken > SMALL_BYTES:
            insort(self._free, taken)

    def _piece(self, block: int) -> int:
        place = bisect_left(self._free, block)
        piece = self._free.pop(place) if place < len(self._free) else segment_bytes(block)
        rest = piece - block
        if rest <= SMALL_BYTES:
            return piece
        insort(self._free, rest)
        return block
