"""A ledger from a model's shape, an engine and a device."""

from collections import defaultdict

import msgspec

from oomctl.analyzers.ledger import estimates
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.kv import blocks_of, layout, max_concurrency, printed_tokens
from oomctl.analyzers.ledger.partition import stages
from oomctl.analyzers.ledger.quantization import online
from oomctl.analyzers.ledger.shape import Layer, ModelShape
from oomctl.analyzers.ledger.weights import disk_bytes, rank_tensors, steady_bytes
from oomctl.schemas.ledger import GIB, Component, Entry, KvLayout, Ledger, Lifetime, Pool, Summary

_FORMULAS = {
    "embedding": "padded vocabulary / tp x hidden",
    "head": "padded vocabulary / tp x hidden",
    "attention": "fused q, k, v (KV heads replicated where ranks exceed them) and output",
    "mlp": "fused gate and up, and down, / tp",
    "experts": "all local experts, gate, up and down",
    "shared experts": "gate, up and down, / tp",
    "router": "experts x hidden, whole on every rank",
    "state": "projections and convolution of recurrent layers, / tp",
    "absorbed": "unpacked copies of kv_b_proj for the absorbed form of MLA",
    "rotary": "positions x rotary dim, whole on every rank",
    "vision tower": "matrices / tp; patches, positions and norms whole",
    "norm": "whole on every rank",
}


def predict(shape: ModelShape, engine: Engine, device: int | None = None) -> Ledger:
    """Every byte of each pipeline stage's rank; the tensor-parallel ranks of a stage are alike.

    Args:
        shape: Of the model.
        engine: Its version and arguments.
        device: Total bytes of a device; without them there is no budget and no pool, unless the engine fixes it.

    Raises:
        OomctlError: The combination cannot run, such as a dimension that does not divide.
    """
    notes = [f"lower bound: {text}" for text in shape.lower_bounds]
    if engine.quantization and shape.quantization.name == "none":
        shape = msgspec.structs.replace(shape, quantization=online(engine.quantization))
    length = engine.max_model_len or shape.max_positions
    if length > shape.max_positions:
        notes.append(f"max_model_len {length} is beyond the model's {shape.max_positions} positions")
    ranks = stages(len(shape.layers), engine.pipeline_parallel, engine)
    entries: list[Entry] = []
    layouts: list[KvLayout] = []
    for stage, own in enumerate(ranks):
        layers = shape.layers[own.start : own.stop]
        if engine.draft_tokens and stage == len(ranks) - 1:
            layers += shape.draft_layers[:1]
        layouts.append(layout(layers, shape, engine, length))
        entries += _weights(shape, engine, stage)
        entries += _runtime(shape, engine, layers, stage, last=stage == len(ranks) - 1)
    ledger = Ledger(
        model=shape.name,
        architecture=shape.architecture,
        model_hash=shape.config_hash,
        engine=engine.name,
        engine_version=".".join(map(str, engine.version)),
        tensor_parallel=engine.tensor_parallel,
        pipeline_parallel=engine.pipeline_parallel,
        weight_format=shape.quantization.name,
        kv_format=engine.kv_dtype,
        device_bytes=device,
        max_model_len=length,
        entries=entries,
        kv=layouts,
        summary=Summary(**dict.fromkeys(Summary.__struct_fields__)),
        notes=notes,
    )
    _add_pool(ledger, engine)
    ledger.summary = _summary(ledger, disk_bytes(shape), engine)
    return ledger


def rank_of(stage: int, engine: Engine) -> int:
    """The first global rank of a pipeline stage."""
    return stage * engine.tensor_parallel


def _weights(shape: ModelShape, engine: Engine, stage: int) -> list[Entry]:
    tensors = rank_tensors(shape, engine, stage)
    owners: dict[str, int] = defaultdict(int)
    for tensor in tensors:
        owners[tensor.owner] += tensor.bytes
    rank = rank_of(stage, engine)
    found = [
        Entry(
            component="weights",
            lifetime="worker",
            owner=owner,
            rank=rank,
            bytes=size,
            quality="predicted",
            formula=_FORMULAS.get(owner, ""),
            source="config.json",
            lower_bound=bool(shape.lower_bounds),
            reason="; ".join(shape.lower_bounds),
        )
        for owner, size in owners.items()
    ]
    rounding = steady_bytes(tensors) - sum(owners.values())
    found.append(
        Entry(
            component="weights",
            lifetime="allocator",
            owner="allocator rounding",
            rank=rank,
            bytes=rounding,
            quality="predicted",
            formula="blocks of the caching allocator less the tensors in them",
            source="PyTorch CUDACachingAllocator",
        )
    )
    return found


def _runtime(shape: ModelShape, engine: Engine, layers: tuple[Layer, ...], stage: int, last: bool) -> list[Entry]:
    figures: list[tuple[Component, Lifetime, str, estimates.Estimate]] = [
        ("activation", "iteration", "profiling peak", estimates.activation(shape, engine, layers, last)),
        ("non_torch", "worker", "driver and collectives", estimates.non_torch(engine)),
        ("context", "worker", "before the first snapshot", estimates.context(engine)),
        ("graph_pool", "worker", "captured graphs", estimates.Estimate(bytes=None, reason="not fitted: measure it")),
    ]
    return [
        Entry(
            component=component,
            lifetime=lifetime,
            owner=owner,
            rank=rank_of(stage, engine),
            bytes=figure.bytes,
            quality=None if figure.bytes is None else "estimated",
            formula=figure.formula,
            source="fitted on vLLM 0.19 on H100" if figure.bytes is not None else "",
            low_bytes=figure.low_bytes,
            high_bytes=figure.high_bytes,
            reason=figure.reason,
        )
        for component, lifetime, owner, figure in figures
    ]


def _add_pool(ledger: Ledger, engine: Engine) -> None:
    """The pool that all ranks can back, and its entries; left out, with a note, where the budget is not known."""
    if not any(own.bytes_per_block for own in ledger.kv):
        ledger.notes.append("the model keeps no cache per token")
        return
    budgets = [_budget(ledger, engine, rank_of(stage, engine)) for stage in range(len(ledger.kv))]
    blocks = engine.gpu_blocks
    quality: str | None = "predicted"
    if blocks is None:
        known = [budget for budget in budgets if budget is not None]
        if len(known) < len(budgets):
            ledger.notes.append("no KV pool: " + _why_no_budget(ledger))
            for stage in range(len(ledger.kv)):
                ledger.entries.append(_pool_entry(rank_of(stage, engine), None, None, "the budget is not known"))
            return
        quality = "predicted" if engine.kv_bytes is not None else "estimated"
        blocks = min(blocks_of(budget, own) for budget, own in zip(known, ledger.kv, strict=True) if own.bytes_per_block)
    for stage, own in enumerate(ledger.kv):
        rank = rank_of(stage, engine)
        less, more = _slack(ledger, rank) if quality == "estimated" else (0, 0)
        entry = _pool_entry(rank, blocks * own.bytes_per_block, quality, "")
        if quality == "estimated" and entry.bytes is not None:
            low, high = max(entry.bytes - less, 0), entry.bytes + more
            entry = msgspec.structs.replace(entry, low_bytes=low, high_bytes=high)
        ledger.entries.append(entry)
    first = next(own for own in ledger.kv if own.bytes_per_block)
    need = first.blocks_per_request
    ledger.pool = Pool(
        bytes=blocks * first.bytes_per_block,
        blocks=blocks,
        tokens=printed_tokens(blocks, first, engine, ledger.max_model_len),
        max_concurrency=round(max_concurrency(blocks, first, engine, ledger.max_model_len), 4),
        starts=blocks >= need and blocks > 0,
        spare_bytes=(blocks - need) * first.bytes_per_block,
    )


def _budget(ledger: Ledger, engine: Engine, rank: int) -> int | None:
    """Bytes left for the pool of a rank.

    vLLM V1: util x total - weights - activation peak - what grew outside torch since the first snapshot; the context and
    collectives set up before it are not charged. V0 charges them too. Source: vLLM v1/worker/gpu_worker.py,
    determine_available_memory.
    """
    if engine.kv_bytes is not None:
        return engine.kv_bytes
    charged: tuple[Component, ...] = ("weights", "activation", "non_torch")
    parts = [ledger.total(component, rank) for component in charged]
    known = [part for part in parts if part is not None]
    if ledger.device_bytes is None or len(known) < len(parts):
        return None
    return int(ledger.device_bytes * engine.utilization) - sum(known)


def _slack(ledger: Ledger, rank: int) -> tuple[int, int]:
    """(less, more) by which the pool may differ: it is what the estimated charges leave."""
    less = more = 0
    for entry in ledger.entries:
        if entry.rank == rank and entry.component in ("activation", "non_torch") and entry.bytes is not None:
            less += (entry.high_bytes or entry.bytes) - entry.bytes
            more += entry.bytes - (entry.low_bytes or entry.bytes)
    return less, more


def _why_no_budget(ledger: Ledger) -> str:
    if ledger.device_bytes is None:
        return "give --device"
    return next((entry.reason for entry in ledger.entries if entry.bytes is None and entry.reason), "parts are not known")


def _pool_entry(rank: int, size: int | None, quality: str | None, reason: str) -> Entry:
    return Entry(
        component="kv_pool",
        lifetime="request",
        owner="KV blocks",
        rank=rank,
        bytes=size,
        quality=None if size is None else "predicted" if quality == "predicted" else "estimated",
        formula="blocks x bytes per block, the least over ranks; block 0 is the null block",
        reason=reason,
    )


def _summary(ledger: Ledger, on_disk: int, engine: Engine) -> Summary:
    ranks = [rank_of(stage, engine) for stage in range(len(ledger.kv))]
    pools = [ledger.total("kv_pool", rank) for rank in ranks]
    known = [pool for pool in pools if pool is not None]
    rooms = []
    for rank in ranks:
        parts = [
            ledger.total(component, rank) for component in ("weights", "activation", "non_torch", "context", "kv_pool")
        ]
        held = [part for part in parts if part is not None]
        if ledger.device_bytes is not None and len(held) == len(parts):
            rooms.append(ledger.device_bytes - sum(held))
    return Summary(
        raw_weight_gib=round(on_disk / GIB, 4),
        # Measured figures come from `ledger measure`; a prediction has none.
        measured_weight_steady_gib_per_rank=None,
        measured_runtime_peak_gib_per_rank=None,
        kv_kib_per_token_per_rank=max(own.bytes_per_token for own in ledger.kv) / 2**10,
        kv_pool_gib_per_rank=round(min(known) / GIB, 4) if len(known) == len(pools) and known else None,
        headroom_gib_per_rank=round(min(rooms) / GIB, 4) if len(rooms) == len(ranks) else None,
    )
