"""A ledger from a model's shape, an engine and a device."""

import msgspec

from oomctl.analyzers.ledger import budget, estimates, steady
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.kv import layout
from oomctl.analyzers.ledger.partition import stages
from oomctl.analyzers.ledger.quantization import online
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import ModelShape
from oomctl.analyzers.ledger.weights import disk_bytes
from oomctl.schemas.ledger import Entry, Ledger, Summary


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
    ranks = _ranks(shape, engine, length)
    entries: list[Entry] = [entry for rank in ranks for entry in (*steady.weights(rank), *_runtime(rank))]
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
        kv=[rank.kv for rank in ranks],
        summary=Summary(**dict.fromkeys(Summary.__struct_fields__)),
        notes=notes,
    )
    budget.add_pool(ledger, engine)
    ledger.summary = budget.summary(ledger, disk_bytes(shape), engine)
    return ledger


def _ranks(shape: ModelShape, engine: Engine, length: int) -> list[Rank]:
    found = []
    own = stages(len(shape.layers), engine.pipeline_parallel, engine)
    for stage, numbers in enumerate(own):
        layers = shape.layers[numbers.start : numbers.stop]
        if engine.draft_tokens and stage == len(own) - 1:
            layers += shape.draft_layers[:1]
        kv = layout(layers, shape, engine, length)
        found.append(
            Rank(shape=shape, engine=engine, stage=stage, stages=len(own), layers=layers, kv=kv, max_model_len=length)
        )
    return found


def _runtime(rank: Rank) -> Entries:
    shape, engine = rank.shape, rank.engine
    peak = estimates.activation(shape, engine, rank.layers, rank.last)
    yield rank.estimated("activation", "iteration", "profiling peak", peak)
    yield rank.estimated("non_torch", "worker", "driver and collectives", estimates.non_torch(engine))
    yield rank.estimated("context", "worker", "before the first snapshot", estimates.context(engine))
    yield rank.estimated("graph_pool", "worker", "captured graphs", estimates.graphs(shape, engine, rank.layers))
