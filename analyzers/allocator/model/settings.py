"""The allocator's settings, as a snapshot tells them and as a question changes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oomctl.analyzers.allocator.rules import LARGE_SEGMENT_BYTES, ROUND_BYTES, rounded

UNLIMITED = 1 << 62
MIB = 1 << 20
FIRST_INTERVAL_BITS, INTERVALS = 20, 16
"""roundup_power2_divisions has a number for each power of two from 1 MiB to 32 GiB; other sizes use the ends."""


@dataclass(frozen=True, slots=True)
class Settings:
    """PYTORCH_CUDA_ALLOC_CONF, and the limit that the process set on itself.

    Attributes:
        expandable: expandable_segments.
        max_split_bytes: max_split_size_mb; blocks from that size on are not split, and serve only requests near their size.
        gc_threshold: garbage_collection_threshold; works only below a limit, as in PyTorch.
        divisions: roundup_power2_divisions by interval; 0 or 1 rounds to 512 only.
        limit_bytes: set_per_process_memory_fraction, in bytes; None without.
    """

    expandable: bool = False
    max_split_bytes: int = UNLIMITED
    gc_threshold: float = 0.0
    divisions: tuple[int, ...] = (0,) * INTERVALS
    limit_bytes: int | None = None

    def block_bytes(self, request_bytes: int) -> int:
        """The block that a request becomes."""
        if request_bytes < ROUND_BYTES:
            return ROUND_BYTES
        interval = min(max(request_bytes.bit_length() - 1 - FIRST_INTERVAL_BITS, 0), INTERVALS - 1)
        divisions = self.divisions[interval]
        if divisions > 1 and request_bytes > ROUND_BYTES * divisions:
            return next_division(request_bytes, divisions)
        return rounded(request_bytes)

    @property
    def collects(self) -> bool:
        """Whether old cached blocks are given back before the driver is asked for more."""
        return self.gc_threshold > 0 and self.limit_bytes is not None

    @property
    def slack_bytes(self) -> int:
        """How much larger than a request an oversize block may be that serves it."""
        return LARGE_SEGMENT_BYTES


def next_division(size: int, divisions: int) -> int:
    """A size rounded up to the next of so many equal steps between two powers of two."""
    if size & (size - 1) == 0:
        return size
    floor = 1 << (size.bit_length() - 1)
    step = floor >> (divisions.bit_length() - 1)
    if step == 0:
        return floor << 1
    return -(-size // step) * step


def settings_of(told: Mapping[str, Any], limit_bytes: int | None = None) -> Settings:
    """From a snapshot's allocator_settings; what is not told has its default.

    Args:
        told: Scalars, and `roundup_power2_divisions.N` by interval in MiB.
        limit_bytes: Of the process, which no snapshot tells.
    """
    split, threshold = told.get("max_split_size", -1), told.get("garbage_collection_threshold", 0.0)
    divisions = [told.get(f"roundup_power2_divisions.{1 << n}", 0) for n in range(INTERVALS)]
    return Settings(
        expandable=told.get("expandable_segments") is True,
        max_split_bytes=split if type(split) is int and split > 0 else UNLIMITED,
        gc_threshold=float(threshold) if type(threshold) in (int, float) and 0 < threshold < 1 else 0.0,
        divisions=tuple(value if type(value) is int and value > 1 else 0 for value in divisions),
        limit_bytes=limit_bytes,
    )
