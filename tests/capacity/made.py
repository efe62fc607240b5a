"""Traces made by hand, for what is worked out from them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oomctl.schemas.trace import Prefixes, Trace, request_table


def trace(
    arrival_s: Sequence[float],
    prompt_tokens: Sequence[int],
    output_tokens: Sequence[int],
    *,
    blocks: Sequence[Sequence[int]] | None = None,
    block_tokens: int = 16,
    clock: Any = "trace",
    **columns: Any,
) -> Trace:
    """A trace of these requests; `blocks` are ids per prompt."""
    given = {
        "arrival_s": arrival_s,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "status": ["ok"] * len(arrival_s),
        **columns,
    }
    prefixes = None
    if blocks is not None:
        flat = np.array([one for row in blocks for one in row], dtype=np.int32)
        prefixes = Prefixes(flat, np.cumsum([0, *map(len, blocks)]), int(flat.max()) + 1, block_tokens, "floor")
    return Trace("made", "made", request_table(given), clock=clock, prefixes=prefixes)
