"""Whether a snapshot can be what an allocator wrote: parts named once, sums within reason, segments and blocks in a row."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from oomctl.schemas.heap import Segment

MAX_SUM = 2**62


def refuse_repeated(parts: list[Any], what: str) -> None:
    """The allocator describes each once; a file that names one again by reference makes much of little."""
    if len(set(map(id, parts))) < len(parts):
        raise ValueError(f"it repeats {what}")


def bound(sizes: Iterable[int]) -> None:
    """Sums are kept in 64 bits: sizes that add up to more than all that a program could ever ask for are none."""
    if sum(sizes) > MAX_SUM:
        raise ValueError("its sizes add up to more than any device could have held")


def problems(segments: list[Segment]) -> list[str]:
    """What of them is not as the allocator keeps it."""
    wrong = sum(sum(block.size_bytes for block in segment.blocks) != segment.total_bytes for segment in segments)
    # Without addresses (PyTorch 1.x) none is known to overlap.
    placed = sorted((segment.device, segment.address, segment.total_bytes) for segment in segments)
    over = sum(one[0] == other[0] and one[1] + one[2] > other[1] for one, other in pairwise(placed) if other[1])
    holed = sum(any(a.address + a.size_bytes != b.address for a, b in pairwise(s.blocks)) for s in segments)
    found = [f"the blocks of {wrong:,} of {len(segments):,} segments do not add up to their sizes"] if wrong else []
    if over:
        found.append(
            f"{over:,} of {len(segments):,} segments overlap another: neither their sums nor a cause can be trusted"
        )
    if holed:
        found.append(f"the blocks of {holed:,} of {len(segments):,} segments do not lie one behind the other")
    return found
