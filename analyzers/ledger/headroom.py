"""What may come on top: requests that ask for more, one request more, a restart, a rolling update."""

import msgspec

from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.schemas.ledger import Component, Entry, Ledger

_STARTED: tuple[Component, ...] = ("weights", "adapter", "context")
_RUNNING: tuple[Component, ...] = (*_STARTED, "activation", "non_torch", "graph_pool")
COUNT_BYTES = 8


def asked(rank: Rank) -> Entries:
    """Memory that a request can ask for, on the rank that samples."""
    if not rank.last:
        return
    engine, words = rank.engine, rank.shape.vocabulary
    yield rank.exact(
        "logits", "headroom", "prompt_logprobs of one chunk", 2 * engine.batched_tokens * words * 4,
        "2 x max_num_batched_tokens x vocabulary x 4 B: logits of every position and their logarithms",
        "vLLM v1/worker/gpu_model_runner.py, _get_prompt_logprobs_dict",
    )  # fmt: skip
    yield rank.exact(
        "logits", "headroom", "penalties", 2 * engine.max_requests * (words + 1) * COUNT_BYTES,
        "2 x max_num_seqs x (vocabulary + 1) x 8 B: counts of prompt and output tokens",
        "vLLM model_executor/layers/utils.py, get_token_bin_counts_and_mask",
    )  # fmt: skip
    yield rank.exact(
        "other", "headroom", "grammar masks", engine.max_requests * (1 + engine.draft_tokens) * -(-words // 32) * 4,
        "max_num_seqs x (1 + drafts) x vocabulary / 32 x 4 B; as much on the host", "vLLM v1/structured_output",
    )  # fmt: skip
    if rank.kv.bytes_per_block:
        yield rank.exact(
            "kv_pool", "headroom", "one beam more", rank.kv.bytes_per_block,
            "a partial block of its own; full blocks are shared, there is no other state", "vLLM beam_search",
        )  # fmt: skip


def add(ledger: Ledger) -> None:
    """Entries of what a burst, a restart and a rolling update take on each rank, from what the ledger holds."""
    ranks = dict.fromkeys(entry.rank for entry in ledger.entries)
    for rank, kv in zip(ranks, ledger.kv, strict=True):
        burst = kv.blocks_per_request * kv.bytes_per_block
        if kv.groups:
            ledger.entries.append(
                _entry("kv_pool", "burst: one request more", rank, burst, "its blocks at the maximum length")
            )
        text = "weights, adapters and context of a new worker before the old one's are gone"
        ledger.entries.append(_together(ledger, "restart overlap", rank, _STARTED, text))
        text = "a second worker beside the first, with room for one request"
        ledger.entries.append(_together(ledger, "rolling update", rank, _RUNNING, text, burst))


def _together(
    ledger: Ledger, owner: str, rank: int, components: tuple[Component, ...], formula: str, more: int = 0
) -> Entry:
    """These components of a rank at once, with the intervals of those that are estimated; unknown if one of them is."""
    own = [entry for entry in ledger.entries if entry.rank == rank and entry.counts and entry.component in components]
    sizes = [entry.bytes for entry in own if entry.bytes is not None]
    if len(sizes) < len(own):
        found = _entry("other", owner, rank, 0, formula)
        return msgspec.structs.replace(found, bytes=None, quality=None, reason="a part of it is not known")
    found = _entry("other", owner, rank, sum(sizes) + more, formula)
    if not any(entry.quality == "estimated" for entry in own):
        return found
    low = sum((entry.low_bytes or entry.bytes or 0) for entry in own) + more
    high = sum((entry.high_bytes or entry.bytes or 0) for entry in own) + more
    return msgspec.structs.replace(found, quality="estimated", low_bytes=low, high_bytes=high)


def _entry(component: Component, owner: str, rank: int, size: int, formula: str) -> Entry:
    return Entry(
        component=component, lifetime="headroom", owner=owner, rank=rank, bytes=size, quality="predicted", formula=formula,
        source="this ledger",
    )  # fmt: skip
