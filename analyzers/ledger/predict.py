"""A ledger from a model's shape, an engine and a device."""

import msgspec

from oomctl.analyzers.ledger import adapters, budget, headroom, loading, runtime, sglang, steady, step
from oomctl.analyzers.ledger.arguments import named_arguments
from oomctl.analyzers.ledger.checkpoint import Checkpoint
from oomctl.analyzers.ledger.drafts import draft_tensors
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.kv import layout
from oomctl.analyzers.ledger.offload import offloaded
from oomctl.analyzers.ledger.packing import Quantization
from oomctl.analyzers.ledger.partition import stages
from oomctl.analyzers.ledger.quantization import online
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import ModelShape
from oomctl.analyzers.ledger.weights import disk_bytes, rank_tensors
from oomctl.schemas.ledger import Entry, Ledger, Summary

KV_AS_SAID_FROM = (0, 12)
"""vLLM that takes the type of keys and values from the checkpoint. Source: utils/torch_utils.py,
`resolve_kv_cache_dtype_string`, and attention/layer.py for `kv_cache_scheme`; the first version was not looked up."""
TOLERANCE = 0.01
"""By which a checkpoint may differ from its config before it is said."""


def predict(
    shape: ModelShape,
    engine: Engine,
    device: int | None = None,
    checkpoint: Checkpoint | None = None,
    draft: ModelShape | None = None,
) -> Ledger:
    """Every byte of each pipeline stage's rank; the tensor-parallel ranks of a stage are alike.

    Args:
        shape: Of the model.
        engine: Its version and arguments.
        device: Total bytes of a device; without them there is no budget and no pool, unless the engine fixes it.
        checkpoint: What lies on disk, from its headers.
        draft: The model that drafts, where it is another one.

    Raises:
        OomctlError: The combination cannot run, such as a dimension that does not divide.
    """
    notes = [f"lower bound: {text}" for text in shape.lower_bounds]
    notes += _beside_drafts(shape, engine, draft)
    unpacked = None
    if checkpoint is not None and checkpoint.weights is not None:
        from oomctl.analyzers.ledger import gguf

        shape = msgspec.structs.replace(shape, quantization=gguf.quantization(checkpoint))
    if engine.quantization and shape.quantization.name == "none":
        unpacked = shape.quantization
        shape = msgspec.structs.replace(shape, quantization=online(engine.quantization))
    if (
        engine.kv_dtype == "auto"
        and shape.quantization.kv_fp8
        and engine.name == "vllm"
        and engine.version >= KV_AS_SAID_FROM
    ):
        engine = msgspec.structs.replace(engine, kv_dtype="fp8")
        notes.append("keys and values are kept in FP8, as the checkpoint asks")
    length = engine.max_model_len or shape.max_positions
    if length > shape.max_positions:
        notes.append(f"max_model_len {length} is beyond the model's {shape.max_positions} positions")
    if engine.name == "sglang":
        notes.append("weights are counted as vLLM lays them out; SGLang's own layout was not looked up tensor by tensor")
    ranks = _ranks(shape, engine, length, draft)
    entries: list[Entry] = [
        entry
        for rank in ranks
        for entry in (*steady.weights(rank), *loading.loading(rank, checkpoint, unpacked), *_beside(rank))
    ]
    notes += _beside_config(shape, checkpoint, unpacked)
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
        arguments=named_arguments(engine),
        entries=entries,
        kv=[rank.kv for rank in ranks],
        summary=Summary(**dict.fromkeys(Summary.__struct_fields__)),
        notes=notes,
    )
    if engine.name == "sglang":
        for rank in ranks:
            sglang.add_states(ledger, rank)
    budget.add_pool(ledger, ranks)
    headroom.add(ledger)
    ledger.summary = budget.summary(ledger)
    return ledger


def _ranks(shape: ModelShape, engine: Engine, length: int, draft: ModelShape | None) -> list[Rank]:
    found = []
    own = stages(len(shape.layers), engine.pipeline_parallel, engine)
    for stage, numbers in enumerate(own):
        layers, tensors = shape.layers[numbers.start : numbers.stop], rank_tensors(shape, engine, stage)
        if stage == len(own) - 1:
            layers += engine.own_drafts(shape.draft_layers)
            if draft is not None:
                layers += draft.layers
                tensors += draft_tensors(draft, shape, engine)
        tensors, moved = offloaded(tensors, engine.offload_bytes)
        kept = () if shape.cache_unknown else layers
        kv = (sglang.layout if engine.name == "sglang" else layout)(kept, shape, engine, length)
        rank = Rank(
            shape=shape, engine=engine, stage=stage, stages=len(own), layers=layers, tensors=tuple(tensors), kv=kv,
            max_model_len=length, offloaded_bytes=moved,
        )  # fmt: skip
        found.append(rank)
    return found


def _beside_drafts(shape: ModelShape, engine: Engine, draft: ModelShape | None) -> list[str]:
    """What of drafting is not counted."""
    if draft is not None:
        return [f"lower bound: draft model: {text}" for text in draft.lower_bounds]
    if engine.draft_tokens and engine.draft == "model":
        return ["the draft model of speculative decoding is not counted: give its config"]
    if engine.draft_tokens and engine.draft == "own" and not shape.draft_layers:
        return ["the config names no layers that draft: none are counted"]
    return []


def _beside(rank: Rank) -> Entries:
    """What a rank holds beside its weights and KV blocks."""
    if rank.engine.name == "sglang":
        yield from sglang.beside(rank)
        return
    yield from adapters.adapters(rank)
    yield from step.peak(rank)
    yield from runtime.workspaces(rank)
    yield from runtime.collectives(rank)
    yield from runtime.graphs(rank)
    yield from runtime.tables(rank)
    yield from runtime.states(rank)
    yield from runtime.encoder_cache(rank)
    yield from runtime.transfers(rank)
    yield from headroom.asked(rank)
    yield from runtime.slack(rank)


def _beside_config(shape: ModelShape, checkpoint: Checkpoint | None, unpacked: Quantization | None) -> list[str]:
    """Whether the checkpoint holds what its config says."""
    if checkpoint is None:
        return []
    expected = disk_bytes(shape if unpacked is None else msgspec.structs.replace(shape, quantization=unpacked))
    share = checkpoint.tensor_bytes / expected - 1
    if abs(share) <= TOLERANCE:
        return []
    return [f"the checkpoint holds {checkpoint.tensor_bytes} B of tensors, {share:+.1%} beside what its config tells"]
