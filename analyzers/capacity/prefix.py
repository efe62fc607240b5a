"""What requests have in common with those before them: hits of a cache, without bound or of a size, and branches.

Nothing here loops over blocks: a request's blocks are one slice of an array, and are looked up together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from oomctl.schemas.trace import Prefixes

Index = npt.NDArray[np.int64]
NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """Per request, each of shape (requests,).

    Attributes:
        shared_blocks: int64: leading blocks that a request before has, so that a cache without bound holds them.
        branches: bool: whether it leaves a chain of whole blocks of one before at a block where that one went on otherwise.
    """

    shared_blocks: Index
    branches: npt.NDArray[np.bool_]


def sharing(prefixes: Prefixes, whole_blocks: Index) -> Sharing:
    """What each request shares with any before it.

    Args:
        prefixes: In the order of arrival.
        whole_blocks: Filled blocks of each prompt, int64, shape (requests,): what a partly filled one becomes later has
            another id, and is no branch.
    """
    seen = np.zeros(prefixes.limit, dtype=np.bool_)
    child = np.full(prefixes.limit, NONE, dtype=np.int32)
    shared = np.zeros(len(whole_blocks), dtype=np.int64)
    branches = np.zeros(len(whole_blocks), dtype=np.bool_)
    for request, (ids, whole) in enumerate(zip(prefixes, whole_blocks.tolist(), strict=True)):
        hits = _leading(seen[ids])
        shared[request] = hits
        if 0 < hits < whole:
            branches[request] = child[ids[hits - 1]] != NONE
        seen[ids[hits:]] = True
        start = max(hits - 1, 0)
        if whole - start > 1:
            child[ids[start : whole - 1]] = ids[start + 1 : whole]
    return Sharing(shared, branches)


def shared_with_previous(prefixes: Prefixes, previous: Index) -> Index:
    """Leading blocks that each request has in common with one named before it; NONE where there is none.

    Args:
        prefixes: Of the requests.
        previous: int64, shape (requests,): row of the request to compare with, or NONE.
    """
    found = np.full(len(previous), NONE, dtype=np.int64)
    for request, before in enumerate(previous.tolist()):
        if before != NONE:
            old, new = prefixes.of(before), prefixes.of(request)
            length = min(len(old), len(new))
            found[request] = _leading(old[:length] == new[:length])
    return found


def lru_hits(prefixes: Prefixes, capacities: Sequence[int]) -> Index:
    """Leading blocks that a cache of each size holds, where the block that was used longest ago goes first.

    Of one request's blocks the last goes first, as in engines, so that what is left is a prefix. Then what was used after a
    block are the blocks of later requests and the ones before it in its own, and it is held where their number is below the
    capacity (Mattson et al., Evaluation techniques for storage hierarchies, 1970). A request's blocks fall into few runs
    with one last user each, so one pass over requests serves all capacities.

    Args:
        prefixes: In the order of arrival.
        capacities: In blocks.

    Returns:
        int64, shape (capacities, requests).
    """
    requests = len(prefixes.offsets) - 1
    last = np.full(prefixes.limit, NONE, dtype=np.int64)
    latest = np.zeros(requests, dtype=np.int64)  # blocks of which it is the last user
    first = np.zeros(requests, dtype=np.int64)  # the place of the first of them
    hits = np.zeros((len(capacities), requests), dtype=np.int64)
    for request, ids in enumerate(prefixes):
        if not len(ids):
            continue
        users = last[ids]
        bounds = [0, *(np.flatnonzero(np.diff(users)) + 1).tolist(), len(ids)]
        runs = [(int(users[start]), start, end) for start, end in pairwise(bounds)]
        open_places = list(range(len(capacities)))
        for user, start, end in runs:
            if user == NONE or not open_places:
                break
            above = int(latest[user + 1 : request].sum()) + start - int(first[user])
            for place in tuple(open_places):
                held = min(max(capacities[place] - above, 0), end - start)
                hits[place, request] += held
                if held < end - start:
                    open_places.remove(place)
        for user, start, end in runs:
            if user != NONE:
                latest[user] -= end - start
                first[user] = max(int(first[user]), end)
        latest[request] = len(ids)
        last[ids] = request
    return hits


def hit_tokens(blocks: Index, prompt_tokens: Index, block_tokens: int) -> Index:
    """Tokens of leading blocks that are there: at most the prompt, since a last block may be partly filled."""
    return np.minimum(blocks * block_tokens, prompt_tokens)


def engine_hit_tokens(blocks: Index, prompt_tokens: Index, block_tokens: int) -> Index:
    """Tokens that an engine reuses: whole blocks only, and it computes the last token of the prompt at least.

    Source: vLLM v1/core/kv_cache_manager.py, get_computed_blocks.
    """
    return np.asarray(np.minimum(blocks, np.maximum(prompt_tokens - 1, 0) // block_tokens) * block_tokens)


def _leading(held: npt.NDArray[np.bool_]) -> int:
    """How many leading values are true."""
    if not len(held):
        return 0
    first = int(held.argmin())
    return len(held) if held[first] else first
