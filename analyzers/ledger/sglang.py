"""SGLang's budget and pools: one slot per token and layer, a padding page, and state slots of their own."""

import msgspec

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.estimates import Estimate
from oomctl.analyzers.ledger.kv import specs, state_bytes_per_rank
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import Mla, ModelShape, State
from oomctl.schemas.ledger import GIB, KvLayout, Ledger

MIB = 2**20
DEFAULT_FROM = (0, 5)
"""The share that SGLang chooses by itself was looked up from here on."""
SHARE_BELOW, SHARE_ABOVE = 0.02, 0.01
"""By how much its own choice may be off: how many prefill graphs it plans for is not counted."""
FLOOR_BYTES, FLOOR_FROM_BYTES = 10 * GIB, 60 * GIB
# Device memory in GiB below which: tokens of a prefill chunk, largest decode graph under fewer than 4 ranks, and else.
_BY_DEVICE = ((20, 2048, 8, 8), (35, 4096, 48, 160), (60, 4096, 32, 160), (160, 8192, 256, 512), (2**20, 16384, 512, 512))


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes for the KV pool of a rank, with the interval that the start of the process leaves open."""

    bytes: int
    low_bytes: int
    high_bytes: int


def static_share(shape: ModelShape, engine: Engine, device: int) -> float | None:
    """The share of free memory that weights and KV pool may take: as given, else as SGLang chooses it; None: not known.

    Reserved are 512 MiB, 1.5 MiB per token of a prefill chunk, 2 MiB per sequence of the largest decode graph, 1.5 GiB for
    MLA's prefill graphs, 1 GiB per 8 ranks, at least 10 GiB on devices of more than 60 GiB. Source: SGLang
    arg_groups/memory_hook.py (server_args.py before), handle_gpu_memory_settings, without its extras.
    """
    if engine.static_share is not None:
        return engine.static_share
    if engine.version < DEFAULT_FROM or shape.vision is not None:
        return None
    ranks = engine.tensor_parallel
    chunk, few, many = next(sizes[1:] for sizes in _BY_DEVICE if device < sizes[0] * GIB)
    graphs = 0 if engine.eager else 2 * (engine.graph_limit or (few if ranks < 4 else many))
    latent = any(isinstance(layer.mixer, Mla) for layer in shape.layers)
    reserved = 512 + 1.5 * max(chunk, 2048) + graphs + (1536 if latent else 0)
    reserved += ranks * engine.pipeline_parallel / 8 * 1024
    size = max(reserved * MIB, FLOOR_BYTES if device > FLOOR_FROM_BYTES else 0)
    return round((device - size) / device, 3)


def start_bytes(engine: Engine) -> tuple[int, int, int]:
    """(least, likely, most) bytes that are gone before loading: context and, with several ranks, the collectives.

    They are the driver's and NCCL's: seen on H100, where 0.51 GiB and 1.43 to 2.07 GiB were.
    """
    several = engine.tensor_parallel * engine.pipeline_parallel > 1
    low, likely, high = (1.3, 1.6, 2.4) if several else (0.4, 0.51, 0.7)
    return int(low * GIB), int(likely * GIB), int(high * GIB)


def pool_budget(ledger: Ledger, shape: ModelShape, engine: Engine, rank: int) -> Budget | None:
    """Bytes for the KV pool: share x what was free before loading - weights; None where a part is not known.

    Source: SGLang mem_cache/kv_cache_configurator.py, _profile_available_bytes (model_runner.py before): what is free after
    loading less pre-load free x (1 - mem_fraction_static).
    """
    weights, device = ledger.total("weights", rank), ledger.device_bytes
    share = None if device is None else static_share(shape, engine, device)
    if weights is None or device is None or share is None:
        return None
    least, likely, most = start_bytes(engine)
    below, above = (0.0, 0.0) if engine.static_share is not None else (SHARE_BELOW, SHARE_ABOVE)
    return Budget(
        bytes=int(share * (device - likely)) - weights,
        low_bytes=int((share - below) * (device - most)) - weights,
        high_bytes=int(min(share + above, 1) * (device - least)) - weights,
    )


def beside(rank: Rank) -> Entries:
    """What a rank holds beside weights and pool: what SGLang leaves to `1 - mem_fraction_static`, and has no figure for."""
    least, likely, most = start_bytes(rank.engine)
    started = Estimate(bytes=likely, low_bytes=least, high_bytes=most, formula="context and collectives, seen on H100")
    yield rank.estimated("context", "worker", "before loading", started)
    reason = "SGLang measures no peak; it leaves 1 - mem_fraction_static of the free memory to it"
    yield rank.unknown("activation", "iteration", "peak", reason)
    if not rank.engine.eager:
        yield rank.unknown("graph_pool", "worker", "captured graphs", "not fitted for SGLang")


def unmodelled(own: KvLayout) -> str:
    """Why a model's pool cannot be predicted; "" where it can."""
    kinds = sorted({group.kind for group in own.groups} - {"full", "latent"})
    return f"SGLang's pools of {', '.join(kinds)} layers are not modelled" if kinds else ""


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
