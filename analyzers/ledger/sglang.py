"""SGLang's budget and pools: one slot per token and layer, a padding page, and state slots of their own."""

from collections import Counter

import msgspec

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.estimates import Estimate
from oomctl.analyzers.ledger.kv import specs, state_bytes_per_rank
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import Layer, Mla, ModelShape, State
from oomctl.schemas.ledger import GIB, KvGroup, KvLayout, Ledger

MIB = 2**20
STATES = "recurrent states"
DEFAULT_FROM = (0, 5)
"""The share that SGLang chooses by itself was looked up from here on."""
SHARE_BELOW, SHARE_ABOVE = 0.02, 0.01
"""By how much its own choice may be off: how many prefill graphs it plans for is not counted."""
FLOOR_BYTES, FLOOR_FROM_BYTES = 10 * GIB, 60 * GIB
# Device memory in GiB below which: tokens of a prefill chunk, largest decode graph under fewer than 4 ranks, and else.
_BY_DEVICE = ((20, 2048, 8, 8), (35, 4096, 48, 160), (60, 4096, 32, 160), (160, 8192, 256, 512), (2**20, 16384, 512, 512))


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


def kv_budget(ledger: Ledger, rank: Rank, device: int) -> Estimate:
    """Bytes for keys and values: what is left for pools without the recurrent states."""
    one, engine = request_state_bytes(rank.layers, rank.shape, rank.engine), rank.engine
    return _pools(ledger, rank, device).map(lambda rest: rest - slots(rest, one, engine) * one)


def _pools(ledger: Ledger, rank: Rank, device: int) -> Estimate:
    """Bytes for the pools of a rank: share x what was free before loading - weights.

    Source: SGLang mem_cache/kv_cache_configurator.py, _profile_available_bytes (model_runner.py before): what is free after
    loading less pre-load free x (1 - mem_fraction_static).
    """
    engine = rank.engine
    weights, share = ledger.total("weights", rank.number), static_share(rank.shape, engine, device)
    if weights is None or share is None:
        return Estimate(
            bytes=None, reason="give --mem-fraction-static: its default is not modelled for this model or version"
        )
    least, likely, most = start_bytes(engine)
    below, above = (0.0, 0.0) if engine.static_share is not None else (SHARE_BELOW, SHARE_ABOVE)
    return Estimate(
        bytes=int(share * (device - likely)) - weights,
        low_bytes=int((share - below) * (device - most)) - weights,
        high_bytes=int(min(share + above, 1) * (device - least)) - weights,
    )


def add_states(ledger: Ledger, rank: Rank) -> None:
    """The pool of recurrent states of a rank; nothing for a model that has none."""
    one, engine = request_state_bytes(rank.layers, rank.shape, rank.engine), rank.engine
    if not one:
        return
    found = Estimate(bytes=None, reason="give --device")
    if engine.state_slots is not None:
        found = Estimate(bytes=0)
    elif ledger.device_bytes is not None:
        found = _pools(ledger, rank, ledger.device_bytes)
    figure = msgspec.structs.replace(
        found.map(lambda rest: (slots(rest, one, engine) + 1) * one),
        formula="(slots + 1) x state of one request; slots: the states' share of what is left / state",
        source="SGLang mem_cache/kv_cache_configurator.py",
    )
    ledger.entries.append(rank.estimated("kv_pool", "request", STATES, figure))


def beside(rank: Rank) -> Entries:
    """What a rank holds beside weights and pool: what SGLang leaves to `1 - mem_fraction_static`, and has no figure for."""
    least, likely, most = start_bytes(rank.engine)
    started = Estimate(
        bytes=likely, low_bytes=least, high_bytes=most, formula="context and collectives", source="seen on H100"
    )
    yield rank.estimated("context", "worker", "before loading", started)
    reason = "SGLang measures no peak; it leaves 1 - mem_fraction_static of the free memory to it"
    yield rank.unknown("activation", "iteration", "peak", reason)
    if not rank.engine.eager:
        yield rank.unknown("graph_pool", "worker", "captured graphs", "not fitted for SGLang")


def layout(layers: tuple[Layer, ...], shape: ModelShape, engine: Engine, max_model_len: int) -> KvLayout:
    """One pool of tokens, with fewer of them for layers that see a window; recurrent states have slots of their own.

    Windowed layers hold `--swa-full-tokens-ratio` x the tokens of the others, unless there are no others. Source: SGLang
    model_executor/pool_configurator.py, `HybridSWAPoolConfigurator`.
    """
    found = [spec for spec in specs(layers, shape, engine) if spec.token_bytes]
    windowed = [spec for spec in found if spec.span is not None]
    share = engine.window_share if len(windowed) < len(found) and engine.hybrid_groups else 1.0
    page = engine.block_size
    whole = sum(spec.token_bytes for spec in found if spec.span is None)
    blocks = -(-max_model_len // page)
    groups = tuple(
        KvGroup(
            kind=spec.kind, layers=count, padding_layers=0, block_tokens=page, page_bytes=page * spec.token_bytes,
            blocks_per_request=blocks,
        )
        for spec, count in Counter(found).items()
    )  # fmt: skip
    per_token = whole + int(share * sum(spec.token_bytes for spec in windowed))
    return KvLayout(
        groups=groups,
        bytes_per_block=page * per_token,
        bytes_per_token=per_token,
        blocks_per_request=blocks if found else 0,
    )


def request_state_bytes(layers: tuple[Layer, ...], shape: ModelShape, engine: Engine) -> int:
    """Recurrent state of one request over these layers."""
    return sum(spec.state_bytes for spec in specs(layers, shape, engine))


def slots(rest: int, request_bytes: int, engine: Engine) -> int:
    """Requests whose recurrent states get a place: their share of what is left, 0.9 parts to 1 for keys and values.

    Source: SGLang mem_cache/kv_cache_configurator.py, _handle_max_mamba_cache.

    >>> slots(1900, 9, Engine(name="sglang"))
    100
    """
    if engine.state_slots is not None or not request_bytes:
        return engine.state_slots or 0
    return max(int(rest * engine.state_share / (1 + engine.state_share) // request_bytes), 0)


def kv_pool_bytes(shape: ModelShape, engine: Engine, tokens: int) -> int:
    """Bytes of the pool for this many tokens.

    One page more than asked for takes what is padding. Before 0.5.3 the printed size left a sparse indexer's keys out.
    Source: SGLang mem_cache/memory_pool.py, `MHATokenToKVPool`, `MLATokenToKVPool`, `NSATokenToKVPool`.
    """
    found = [spec for spec in specs(shape.layers, shape, engine) if spec.token_bytes]
    if engine.version < (0, 6) and engine.version != (0, 0):
        found = [spec for spec in found if spec.kind != "index"]
    return (tokens + engine.block_size) * sum(spec.token_bytes for spec in found)


def state_pool_bytes(shape: ModelShape, engine: Engine, count: int) -> tuple[int, int]:
    """(convolution, recurrent) bytes of the pool for this many requests; one slot more takes what is padding."""
    conv = recurrent = 0
    for layer in shape.layers:
        if isinstance(layer.mixer, State):
            one = state_bytes_per_rank(layer.mixer, shape, engine)
            conv, recurrent = conv + one[0], recurrent + one[1]
    return conv * (count + 1), recurrent * (count + 1)
