"""SGLang's pools: one slot per token and layer, a padding page, and state slots of their own."""

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.kv import specs, state_bytes_per_rank
from oomctl.analyzers.ledger.shape import ModelShape, State


def kv_pool_bytes(shape: ModelShape, engine: Engine, tokens: int) -> int:
    """Bytes of the pool for this many tokens.

    One page more than asked for takes what is padding. Before 0.5.3 the printed size left a sparse indexer's keys out.
    Source: SGLang mem_cache/memory_pool.py, `MHATokenToKVPool`, `MLATokenToKVPool`, `NSATokenToKVPool`.
    """
    found = [spec for spec in specs(shape.layers, shape, engine) if spec.token_bytes]
    if engine.version < (0, 6) and engine.version != (0, 0):
        found = [spec for spec in found if spec.kind != "index"]
    return (tokens + engine.block_size) * sum(spec.token_bytes for spec in found)


def state_pool_bytes(shape: ModelShape, engine: Engine, slots: int) -> tuple[int, int]:
    """(convolution, recurrent) bytes of the pool for this many requests; one slot more takes what is padding."""
    conv = recurrent = 0
    for layer in shape.layers:
        if isinstance(layer.mixer, State):
            one = state_bytes_per_rank(layer.mixer, shape, engine)
            conv, recurrent = conv + one[0], recurrent + one[1]
    return conv * (slots + 1), recurrent * (slots + 1)
