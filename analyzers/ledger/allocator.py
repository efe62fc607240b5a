"""What PyTorch's caching allocator counts as allocated for a list of tensors."""

from bisect import bisect_left, insort
from collections.abc import Iterable

MIB = 2**20
_ROUND = 512
_SMALL = MIB
_MIDDLE = 10 * MIB
_MIDDLE_SEGMENT = 20 * MIB
_LARGE_STEP = 2 * MIB


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
    total = 0
    free: list[int] = []
    for size in sizes:
        rounded = max(-(-size // _ROUND), 1) * _ROUND
        if rounded <= _SMALL:
            total += rounded
            continue
        place = bisect_left(free, rounded)
        if place < len(free):
            piece = free.pop(place)
        elif rounded < _MIDDLE:
            piece = _MIDDLE_SEGMENT
        else:
            piece = -(-rounded // _LARGE_STEP) * _LARGE_STEP
        rest = piece - rounded
        if rest > _SMALL:
            insort(free, rest)
            total += rounded
        else:
            total += piece
    return total
