"""Constants and rounding of PyTorch's caching allocator.

Source: c10/core/CachingDeviceAllocator.h and c10/cuda/CUDACachingAllocator.cpp, PyTorch 2.13.
"""

ROUND_BYTES = 512
SMALL_BYTES = 1 << 20
"""The largest request that the small pool serves."""
SMALL_SEGMENT_BYTES = 2 << 20
LARGE_SEGMENT_BYTES = 20 << 20
MIN_LARGE_BYTES = 10 << 20
"""From here on a segment is as large as its request, rounded to ROUND_LARGE_BYTES."""
ROUND_LARGE_BYTES = 2 << 20


def rounded(request_bytes: int) -> int:
    """The block that a request becomes, without roundup_power2_divisions."""
    return max(-(-request_bytes // ROUND_BYTES) * ROUND_BYTES, ROUND_BYTES)


def segment_bytes(block_bytes: int) -> int:
    """The segment that is asked of the driver for a block: what an error message calls "Tried to allocate"."""
    if block_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if block_bytes < MIN_LARGE_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-block_bytes // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES


def asked_bytes(request_bytes: int) -> int:
    """What the driver is asked for when a request finds no block."""
    return segment_bytes(rounded(request_bytes))


def page_bytes(size_class: str) -> int:
    """What an expandable segment maps and unmaps at once."""
    return SMALL_SEGMENT_BYTES if size_class == "small" else LARGE_SEGMENT_BYTES
