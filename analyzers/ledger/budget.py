"""What is left for KV blocks: the budget as the engine computes it, the pool that all ranks can back, the summary."""

from typing import TYPE_CHECKING

import msgspec

from oomctl.analyzers.ledger import sglang
from oomctl.analyzers.ledger.kv import blocks_of, max_concurrency, printed_tokens
from oomctl.analyzers.ledger.rank import rank_of
from oomctl.schemas.ledger import GIB, Component, Entry, KvLayout, Ledger, Pool, Summary

if TYPE_CHECKING:
    from oomctl.analyzers.ledger.engine import Engine
    from oomctl.analyzers.ledger.shape import ModelShape

GRAPHS_CHARGED_FROM = (0, 21)
"""vLLM charges its estimate of the graphs to the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS)."""
NULL_BLOCK_COUNTED_FROM = (0, 32)
"""A version whose check for one request leaves the null block out; the first that does was not looked up."""


def charged(engine: "Engine") -> tuple[Component, ...]:
    """Components that utilization x total must hold beside the KV pool.

    vLLM V1: weights, adapters, the activation peak and what grew outside torch since the first snapshot; the context and
    collectives set up before it are not charged. From 0.21 an estimate of the graphs is. V0 charges the context too.
    Source: vLLM v1/worker/gpu_worker.py, determine_available_memory.
    """
    found: tuple[Component, ...] = ("weights", "adapter", "activation", "non_torch")
    if engine.is_v0:
        return (*found, "context")
    return (*found, "graph_pool") if engine.version >= GRAPHS_CHARGED_FROM else found


def add_pool(ledger: Ledger, engine: "Engine", shape: "ModelShape") -> None:
    """The pool that all ranks can back, and its entries; left out, with a note, where the budget is not known."""
    if not any(own.bytes_per_block for own in ledger.kv):
        ledger.notes.append("the model keeps no cache per token")
        return
    ranks = [rank_of(stage, engine) for stage in range(len(ledger.kv))]
    budgets = [_budget(ledger, engine, shape, rank) for rank in ranks]
    blocks = engine.gpu_blocks
    quality = "predicted"
    if blocks is None:
        known = [budget for budget in budgets if budget is not None]
        if len(known) < len(budgets):
            ledger.notes.append("no KV pool: " + _why_no_budget(ledger, engine))
            ledger.entries += [_pool_entry(rank, None, None, "the budget is not known") for rank in ranks]
            return
        quality = "predicted" if engine.kv_bytes is not None else "estimated"
        blocks = min(blocks_of(budget, own) for budget, own in zip(known, ledger.kv, strict=True) if own.bytes_per_block)
    if engine.max_tokens is not None:
        blocks = min(blocks, engine.max_tokens // engine.block_size)
    for rank, own in zip(ranks, ledger.kv, strict=True):
        entry = _pool_entry(rank, blocks * own.bytes_per_block, quality, "")
        if quality == "estimated" and entry.bytes is not None:
            less, more = _slack(ledger, rank, engine, shape)
            low, high = max(entry.bytes - less, 0), entry.bytes + more
            entry = msgspec.structs.replace(entry, low_bytes=low, high_bytes=high)
        ledger.entries.append(entry)
        ledger.entries += _scales(entry, own, engine)
    first = next(own for own in ledger.kv if own.bytes_per_block)
    need = first.blocks_per_request + (engine.name == "vllm" and engine.version >= NULL_BLOCK_COUNTED_FROM)
    ledger.pool = Pool(
        bytes=blocks * first.bytes_per_block,
        blocks=blocks,
        tokens=printed_tokens(blocks, first, engine, ledger.max_model_len),
        max_concurrency=round(max_concurrency(blocks, first, engine, ledger.max_model_len), 4),
        starts=blocks >= need and blocks > 0,
        spare_bytes=(blocks - need) * first.bytes_per_block,
    )


def _scales(pool: Entry, own: KvLayout, engine: "Engine") -> list[Entry]:
    """Of a packed pool the bytes that are scales; there is no residual window of higher precision."""
    if not engine.kv_scale_bytes or pool.bytes is None or not own.bytes_per_token:
        return []
    size = pool.bytes * own.scale_bytes_per_token // own.bytes_per_token
    text = "a scale per token and head for its key and for its value"
    return [msgspec.structs.replace(pool, owner="scales of keys and values", bytes=size, formula=text, within="KV blocks")]


def _budget(ledger: Ledger, engine: "Engine", shape: "ModelShape", rank: int) -> int | None:
    """Bytes left for the pool of a rank."""
    if engine.kv_bytes is not None:
        return engine.kv_bytes
    if engine.name == "sglang":
        found = None if sglang.unmodelled(ledger.kv[0]) else sglang.pool_budget(ledger, shape, engine, rank)
        return None if found is None else found.bytes
    held = _held(ledger, charged(engine), rank)
    if ledger.device_bytes is None or held is None:
        return None
    return int(ledger.device_bytes * engine.utilization) - held


def _held(ledger: Ledger, components: tuple[Component, ...], rank: int) -> int | None:
    """Bytes of these components on a rank; None where one that the ledger has is unknown."""
    there = {entry.component for entry in ledger.entries if entry.rank == rank and entry.counts}
    parts = [ledger.total(component, rank) for component in components if component in there]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _slack(ledger: Ledger, rank: int, engine: "Engine", shape: "ModelShape") -> tuple[int, int]:
    """(less, more) by which the pool may differ: it is what the estimated charges leave."""
    if engine.name == "sglang":
        found = sglang.pool_budget(ledger, shape, engine, rank)
        return (0, 0) if found is None else (found.bytes - found.low_bytes, found.high_bytes - found.bytes)
    less = more = 0
    for entry in ledger.entries:
        if entry.rank == rank and entry.counts and entry.component in charged(engine) and entry.bytes is not None:
            less += (entry.bytes if entry.high_bytes is None else entry.high_bytes) - entry.bytes
            more += entry.bytes - (entry.bytes if entry.low_bytes is None else entry.low_bytes)
    return less, more


def _why_no_budget(ledger: Ledger, engine: "Engine") -> str:
    if ledger.device_bytes is None:
        return "give --device"
    if engine.name == "sglang":
        share = "give --mem-fraction-static: its default is not modelled for this model or version"
        return sglang.unmodelled(ledger.kv[0]) or share
    unknown = [
        entry for entry in ledger.entries if entry.bytes is None and entry.counts and entry.component in charged(engine)
    ]
    return next((f"{entry.component}: {entry.reason}" for entry in unknown), "parts are not known")


def _pool_entry(rank: int, size: int | None, quality: str | None, reason: str) -> Entry:
    return Entry(
        component="kv_pool",
        lifetime="request",
        owner="KV blocks",
        rank=rank,
        bytes=size,
        quality=None if size is None else "predicted" if quality == "predicted" else "estimated",
        formula="blocks x bytes per block, the least over ranks; block 0 is the null block",
        source="the engine's budget (docs/ledger.md)",
        reason=reason,
    )


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
        kv_kib_per_token_per_rank=max(own.bytes_per_token for own in ledger.kv) / 2**10,
        kv_pool_gib_per_rank=round(min(known) / GIB, 4) if len(known) == len(pools) and known else None,
        headroom_gib_per_rank=round(min(rooms) / GIB, 4) if len(rooms) == len(ranks) else None,
    )


def _room(ledger: Ledger, rank: int) -> int | None:
    """What a rank's device has left; None where something that it holds is not known."""
    own = [entry.bytes for entry in ledger.entries if entry.rank == rank and entry.counts]
    known = [size for size in own if size is not None]
    return ledger.device_bytes - sum(known) if ledger.device_bytes is not None and len(known) == len(own) else None
