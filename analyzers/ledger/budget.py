"""What is left for KV blocks: the budget as the engine computes it, the pool that all ranks can back, the summary."""

from typing import TYPE_CHECKING

import msgspec

from oomctl.analyzers.ledger import sglang
from oomctl.analyzers.ledger.estimates import Estimate
from oomctl.analyzers.ledger.kv import blocks_of, max_concurrency, printed_tokens
from oomctl.analyzers.ledger.runtime import GRAPHS_CHARGED
from oomctl.schemas.ledger import GIB, Component, Entry, KvLayout, Ledger, Pool, Summary

if TYPE_CHECKING:
    from oomctl.analyzers.ledger.engine import Engine
    from oomctl.analyzers.ledger.rank import Rank

NULL_BLOCK_COUNTED_FROM = (0, 32)
"""A version whose check for one request leaves the null block out; the first that does was not looked up."""


def charged(engine: "Engine") -> tuple[Component, ...]:
    """Components that utilization x total must hold beside the KV pool.

    vLLM V1: weights, adapters, the activation peak and what grew outside torch since the first snapshot; the context and
    collectives set up before it are not charged. From 0.21 the engine's own guess of the graphs is too (`graph_charge`).
    V0 charges the context too. Source: vLLM v1/worker/gpu_worker.py, determine_available_memory.
    """
    found: tuple[Component, ...] = ("weights", "adapter", "activation", "non_torch")
    return (*found, "context") if engine.is_v0 else found


def add_pool(ledger: Ledger, ranks: "list[Rank]") -> None:
    """The pool that all ranks can back, and its entries; left out, with a note, where the budget is not known."""
    engine = ranks[0].engine
    unmodelled = ranks[0].shape.cache_unknown
    if unmodelled:
        ledger.notes.append(f"no KV pool: {unmodelled}")
        ledger.entries += [_pool_entry(rank, None, Estimate(bytes=None, reason=unmodelled)) for rank in ranks]
        return
    if not any(rank.kv.bytes_per_block for rank in ranks):
        ledger.notes.append("the model keeps no cache per token")
        return
    budgets = [_budget(ledger, rank) for rank in ranks]
    blocks = engine.gpu_blocks
    if blocks is None:
        unknown = next((budget.reason for budget in budgets if budget.bytes is None), None)
        if unknown is not None:
            ledger.notes.append(f"no KV pool: {unknown}")
            ledger.entries += [_pool_entry(rank, None, Estimate(bytes=None, reason=unknown)) for rank in ranks]
            return
        fitting = [(budget.bytes or 0, rank.kv) for budget, rank in zip(budgets, ranks, strict=True)]
        blocks = min(blocks_of(size, own) for size, own in fitting if own.bytes_per_block)
    else:
        budgets = [Estimate(bytes=0)] * len(ranks)
    if engine.max_tokens is not None:
        blocks = min(blocks, engine.max_tokens // engine.block_size)
    for rank, budget in zip(ranks, budgets, strict=True):
        entry = _pool_entry(rank, blocks * rank.kv.bytes_per_block, budget)
        ledger.entries.append(entry)
        ledger.entries += _scales(entry, rank.kv, engine)
    own = next(rank.kv for rank in ranks if rank.kv.bytes_per_block)
    need = own.blocks_per_request + (engine.name == "vllm" and engine.version >= NULL_BLOCK_COUNTED_FROM)
    ledger.pool = Pool(
        bytes=blocks * own.bytes_per_block,
        blocks=blocks,
        tokens=printed_tokens(blocks, own, engine, ledger.max_model_len),
        max_concurrency=round(max_concurrency(blocks, own, engine, ledger.max_model_len), 4),
        starts=blocks >= need and blocks > 0,
        spare_bytes=(blocks - need) * own.bytes_per_block,
    )


def _scales(pool: Entry, own: KvLayout, engine: "Engine") -> list[Entry]:
    """Of a packed pool the bytes that are scales; there is no residual window of higher precision."""
    if not engine.kv_scale_bytes or pool.bytes is None or not own.bytes_per_token:
        return []
    size = pool.bytes * own.scale_bytes_per_token // own.bytes_per_token
    text = "a scale per token and head for its key and for its value"
    return [msgspec.structs.replace(pool, owner="scales of keys and values", bytes=size, formula=text, within="KV blocks")]


def _budget(ledger: Ledger, rank: "Rank") -> Estimate:
    """Bytes left for the pool of a rank, with the interval that estimated charges leave."""
    engine = rank.engine
    if engine.kv_bytes is not None:
        return Estimate(bytes=engine.kv_bytes)
    if ledger.device_bytes is None:
        return Estimate(bytes=None, reason="give --device")
    if engine.name == "sglang":
        return sglang.kv_budget(ledger, rank, ledger.device_bytes)
    low = likely = high = int(ledger.device_bytes * engine.memory_share)
    for entry in ledger.entries:
        if entry.rank != rank.number or not (_is_charged(entry, engine) or entry.owner == GRAPHS_CHARGED):
            continue
        if entry.bytes is None:
            return Estimate(bytes=None, reason=f"{entry.component}: {entry.reason}")
        likely -= entry.bytes
        low -= entry.bytes if entry.high_bytes is None else entry.high_bytes
        high -= entry.bytes if entry.low_bytes is None else entry.low_bytes
    return Estimate(bytes=likely, low_bytes=low, high_bytes=high)


def _is_charged(entry: Entry, engine: "Engine") -> bool:
    return entry.counts and entry.component in charged(engine)


def _pool_entry(rank: "Rank", size: int | None, budget: Estimate) -> Entry:
    found = rank.exact(
        "kv_pool", "request", "KV blocks", size or 0,
        "blocks x bytes per block, the least over ranks; block 0 is the null block", "the engine's budget (docs/ledger.md)",
    )  # fmt: skip
    if size is None or budget.bytes is None:
        return msgspec.structs.replace(found, bytes=None, quality=None, reason=budget.reason)
    if budget.low_bytes is None or budget.high_bytes is None:
        return found
    low, high = max(size + budget.low_bytes - budget.bytes, 0), size + budget.high_bytes - budget.bytes
    return msgspec.structs.replace(found, quality="estimated", low_bytes=low, high_bytes=high)


def summary(ledger: Ledger) -> Summary:
    """The figures of a release artifact; what was measured is filled in by `oomctl ledger measure`."""
    ranks = list(dict.fromkeys(entry.rank for entry in ledger.entries))
    on_disk = next((entry.bytes for entry in ledger.entries if entry.place == "disk"), None)
    pools = [ledger.total("kv_pool", rank) for rank in ranks]
    known = [pool for pool in pools if pool is not None]
    rooms = [room for rank in ranks if (room := _room(ledger, rank)) is not None]
    return Summary(
        raw_weight_gib=None if on_disk is None else round(on_disk / GIB, 4),
        measured_weight_steady_gib_per_rank=None,
        measured_runtime_peak_gib_per_rank=None,
        kv_kib_per_token_per_rank=max(kept) / 2**10
        if (kept := [own.bytes_per_token for own in ledger.kv if own.groups])
        else None,
        kv_pool_gib_per_rank=round(min(known) / GIB, 4) if len(known) == len(pools) and known else None,
        headroom_gib_per_rank=round(min(rooms) / GIB, 4) if len(rooms) == len(ranks) else None,
    )


def _room(ledger: Ledger, rank: int) -> int | None:
    """What a rank's device has left; None where something that it holds is not known."""
    own = [entry.bytes for entry in ledger.entries if entry.rank == rank and entry.counts]
    known = [size for size in own if size is not None]
    return ledger.device_bytes - sum(known) if ledger.device_bytes is not None and len(known) == len(own) else None
