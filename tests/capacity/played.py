"""Small traces for the replay's tests."""

from collections.abc import Sequence

import numpy as np

from oomctl.analyzers.capacity.replay.workload import Options, Workload
from oomctl.schemas.trace import Prefixes, Trace, request_table


def trace(
    requests: Sequence[tuple[float, int, int]], ids: Sequence[Sequence[int]] | None = None, block_tokens: int = 16
) -> Trace:
    """(arrival in s, prompt tokens, output tokens) each, with the ids of their whole blocks."""
    prefixes = None
    if ids is not None:
        flat = np.array([each for one in ids for each in one], dtype=np.int32)
        offsets = np.concatenate(([0], np.cumsum([len(one) for one in ids]))).astype(np.int64)
        prefixes = Prefixes(flat, offsets, int(flat.max(initial=0)) + 1, block_tokens, "floor")
    arrivals, prompts, outputs = zip(*requests, strict=True)
    table = request_table(
        {"arrival_s": arrivals, "prompt_tokens": prompts, "output_tokens": outputs, "status": ["ok"] * len(requests)}
    )
    return Trace("made", "mooncake", table, prefixes=prefixes)


def workload(
    requests: Sequence[tuple[float, int, int]],
    ids: Sequence[Sequence[int]] | None = None,
    *,
    block_tokens: int = 16,
    branches: int = 1,
) -> Workload:
    return Workload(trace(requests, ids, block_tokens), Options(branches=branches))
