"""How an engine cuts the KV pool: bytes per token and block, groups of layers, blocks of a request."""

from collections import Counter

import msgspec

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.partition import kv_heads_per_rank
from oomctl.analyzers.ledger.shape import Attention, Layer, Mla, ModelShape, State
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.ledger import KvGroup, KvLayout

DS_MLA_ROW_BYTES = 512 + 16 + 128
"""A row of DeepSeek's sparse attention in FP8: latent, its scales, and the rotary part in bf16."""
INDEX_SCALE_BYTES = 4
ALIGNED_ROWS, ROW_ALIGNMENT = ((0, 7), (0, 8)), 256
"""vLLM versions, the last one excluded, that padded MLA's rows. Source: pull requests 12676 and 14842."""
_FEW_MORE = (((0, 33), 1.5), ((0, 12), 1.25), ((0, 0), 1.0))
"""How much larger the largest bucket may be for all to share groups of its size, from each vLLM on; 1: they never do."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What one layer keeps: `token_bytes` per token, or `state_bytes` per request."""

    kind: str
    token_bytes: int = 0
    scale_bytes: int = 0
    """Of `token_bytes`."""
    state_bytes: int = 0
    span: int | None = None
    """Tokens that it looks back on, where not all."""


def attention_token_bytes(kv_heads: int, head_dim: int, value_dim: int, element_bytes: float, scale_bytes: int = 0) -> int:
    """Keys and values of one token in one layer; with `scale_bytes`, each head keeps a scale for its key and its value.

    The worked example of GQA: 32 layers, 8 KV heads of 128, BF16, are 128 KiB per token, and 8192 tokens 1 GiB. With
    one KV head per query head (MHA, 32) it is 4 times that, with a single one (MQA) an eighth. A pool of 24 GiB holds
    196,608 tokens.

    >>> gqa = 32 * attention_token_bytes(8, 128, 128, 2)
    >>> gqa // 2**10, gqa * 8192 // 2**30
    (128, 1)
    >>> 32 * attention_token_bytes(32, 128, 128, 2) // gqa, gqa // (32 * attention_token_bytes(1, 128, 128, 2))
    (4, 8)
    >>> 24 * 2**30 // gqa
    196608
    >>> attention_token_bytes(8, 128, 128, 0.5, 4)  # four bits and a scale per head
    1088
    """
    return kv_heads * (int((head_dim + value_dim) * element_bytes) + 2 * scale_bytes)


def specs(layers: tuple[Layer, ...], shape: ModelShape, engine: Engine) -> list[Spec]:
    """What each of these layers keeps on one rank; a sparse indexer is a cache of its own."""
    found = []
    for layer in layers:
        mixer = layer.mixer
        if isinstance(mixer, Attention) and not mixer.shares_cache:
            found.append(_attention(mixer, shape, engine))
        elif isinstance(mixer, Mla):
            found.extend(_latent(mixer, shape, engine))
        elif isinstance(mixer, State):
            found.append(_state(mixer, shape, engine))
        if layer.beside is not None:
            found.append(_state(layer.beside, shape, engine))
    return found


def layout(layers: tuple[Layer, ...], shape: ModelShape, engine: Engine, max_model_len: int) -> KvLayout:
    """Groups and blocks of a rank with these layers.

    Source: vLLM v1/core/kv_cache_utils.py (0.11 to 0.2x; later kv_cache_planning.py): layers are bucketed by what they
    keep, cut into groups of equal size (the last one padded), and all groups share the blocks.
    """
    found = [spec for spec in specs(layers, shape, engine) if spec.token_bytes or spec.state_bytes]
    if engine.is_v0:
        # Recurrent states lie outside its blocks.
        found = [spec for spec in found if spec.token_bytes]
    if not found:
        return KvLayout(groups=(), bytes_per_block=0, bytes_per_token=0, blocks_per_request=0)
    states = [spec for spec in found if spec.state_bytes]
    tokens = [spec for spec in found if spec.token_bytes]
    per_token = sum(spec.token_bytes for spec in tokens)
    block, page = _unified(tokens, states, engine)
    whole = len({spec.kind for spec in tokens} - {"full", "latent", "index"}) == 0 and not states
    if whole or engine.is_v0:
        group = KvGroup(
            kind=tokens[0].kind,
            layers=len(tokens),
            padding_layers=0,
            block_tokens=block,
            page_bytes=block * per_token // len(tokens),
            blocks_per_request=_whole_blocks(max_model_len, block, engine),
        )
        return KvLayout(
            groups=(group,),
            bytes_per_block=block * per_token,
            bytes_per_token=per_token,
            blocks_per_request=group.blocks_per_request,
            scale_bytes_per_token=sum(spec.scale_bytes for spec in tokens),
        )
    buckets = Counter(found)
    size = group_size(list(buckets.values()), engine)
    groups = []
    for spec, count in buckets.items():
        own = block if spec.state_bytes else max(page // spec.token_bytes // block, 1) * block
        for index in range(-(-count // size)):
            groups.append(
                KvGroup(
                    kind=spec.kind,
                    layers=min(size, count - index * size),
                    padding_layers=max(size - (count - index * size), 0),
                    block_tokens=own,
                    page_bytes=page,
                    blocks_per_request=_request_blocks(spec, own, engine, max_model_len),
                )
            )
    return KvLayout(
        groups=tuple(groups),
        bytes_per_block=page * size,
        bytes_per_token=sum(spec.token_bytes for spec in tokens if spec.span is None),
        blocks_per_request=sum(group.blocks_per_request for group in groups),
        scale_bytes_per_token=sum(spec.scale_bytes for spec in tokens if spec.span is None),
    )


def group_size(buckets: list[int], engine: Engine) -> int:
    """Layers per group: the smallest bucket, unless the largest is hardly larger.

    >>> group_size([8, 40], Engine()), group_size([20, 22], Engine())
    (8, 22)
    """
    low, high = min(buckets), max(buckets)
    more = next(more for version, more in _FEW_MORE if engine.version >= version)
    return high if high < more * low else low


def blocks_of(pool_bytes: int, own: KvLayout) -> int:
    """Blocks that a pool holds; block 0, the null block, is one of them."""
    return max(pool_bytes // own.bytes_per_block, 0) if own.bytes_per_block else 0


def max_concurrency(blocks: int, own: KvLayout, engine: Engine, max_model_len: int) -> float:
    """Requests of the maximum length at once, as the engine prints it."""
    if engine.is_v0 or engine.name == "sglang":
        return blocks * own.groups[0].block_tokens / max_model_len if own.groups else 0.0
    return blocks / own.blocks_per_request if own.blocks_per_request else 0.0


def printed_tokens(blocks: int, own: KvLayout, engine: Engine, max_model_len: int) -> int:
    """The "KV cache size" in tokens, in the meaning that this version gives it.

    V0: blocks times their tokens. V1 up to 0.20: blocks per group, times the smallest block. From 0.21: what the
    concurrency comes to. Source: vLLM v1/core/kv_cache_utils.py, `_report_kv_cache_config`.
    """
    if not own.groups:
        return 0
    smallest = min(group.block_tokens for group in own.groups)
    if engine.is_v0 or engine.name == "sglang":
        return blocks * smallest
    if engine.version >= (0, 21):
        return int(max_concurrency(blocks, own, engine, max_model_len) * max_model_len)
    return blocks // len(own.groups) * smallest * engine.context_parallel


def _attention(own: Attention, shape: ModelShape, engine: Engine) -> Spec:
    element = engine.kv_bits(engine.dtype_bytes or shape.element_bytes) / 8
    heads = kv_heads_per_rank(own.kv_heads, engine.attention_ranks)
    size = attention_token_bytes(heads, own.head_dim, own.value_dim, element, engine.kv_scale_bytes)
    scales = 2 * heads * engine.kv_scale_bytes
    if own.chunk:
        if engine.parts_chunks:
            return Spec(kind="chunked", token_bytes=size, scale_bytes=scales, span=own.chunk)
        return Spec(kind="full", token_bytes=size, scale_bytes=scales)
    # Without groups of their own, windowed layers keep everything.
    if own.window and engine.parts_windows:
        return Spec(kind="sliding", token_bytes=size, scale_bytes=scales, span=own.window)
    return Spec(kind="full", token_bytes=size, scale_bytes=scales)


def _latent(own: Mla, shape: ModelShape, engine: Engine) -> list[Spec]:
    """MLA keeps one row, whole on every rank."""
    element = engine.kv_element_bytes(engine.dtype_bytes or shape.element_bytes)
    row = (own.kv_rank + own.rope_dim) * element
    if own.index_dim and engine.kv_is_fp8:
        row = DS_MLA_ROW_BYTES
    if engine.name == "vllm" and ALIGNED_ROWS[0] <= engine.version < ALIGNED_ROWS[1]:
        row = -(-row // ROW_ALIGNMENT) * ROW_ALIGNMENT
    found = [Spec(kind="latent", token_bytes=row)]
    if own.index_dim:
        found.append(Spec(kind="index", token_bytes=own.index_dim + INDEX_SCALE_BYTES))
    return found


def _state(own: State, shape: ModelShape, engine: Engine) -> Spec:
    """Convolution window and recurrent state. Source: vLLM layers/mamba/mamba_utils.py, MambaStateShapeCalculator."""
    ranks = engine.attention_ranks
    if own.conv_channels % ranks or own.state_elements % ranks:
        raise OomctlError(f"the {own.kind} state does not divide by {ranks} ranks", None, ExitCode.USAGE)
    element = engine.dtype_bytes or shape.element_bytes
    kept = own.conv_kernel - 1 + engine.draft_tokens
    conv = own.conv_channels // ranks * kept * element
    return Spec(kind=own.kind, state_bytes=conv + own.state_elements // ranks * (own.state_bytes or element))


def state_bytes_per_rank(own: State, shape: ModelShape, engine: Engine) -> tuple[int, int]:
    """(convolution, recurrent) bytes of one request in one layer."""
    element = engine.dtype_bytes or shape.element_bytes
    recurrent = own.state_elements // engine.attention_ranks * (own.state_bytes or element)
    return _state(own, shape, engine).state_bytes - recurrent, recurrent


def _unified(tokens: list[Spec], states: list[Spec], engine: Engine) -> tuple[int, int]:
    """(tokens of a block, bytes of a page): pages of all groups are made equal.

    A recurrent state sets the page: the attention block grows, in steps of the kernel's alignment, until a page holds
    a state. Source: vLLM platforms/interface.py, update_block_size_for_hybrid_model.
    """
    block = engine.block_size
    if not tokens:
        return block, max(spec.state_bytes for spec in states)
    widest = max(spec.token_bytes for spec in tokens)
    if states:
        align = 64 if tokens[0].kind == "latent" else 16
        need = max(spec.state_bytes for spec in states)
        block = max(block, align * -(-need // (align * widest)))
    return block, block * widest


def _request_blocks(spec: Spec, block: int, engine: Engine, max_model_len: int) -> int:
    """Blocks of one group that a request of the maximum length may hold at once.

    Source: vLLM v1/kv_cache_interface.py, `max_memory_usage_bytes` of each spec.
    """
    if spec.state_bytes:
        aligned = engine.caches_prefixes and engine.version >= (0, 21)
        return (2 if aligned else 1) + engine.draft_tokens
    if spec.kind == "sliding" and spec.span:
        seen = min(spec.span - 1 + engine.batched_tokens, max_model_len)
        return -(-seen // block) + 1
    if spec.kind == "chunked" and spec.span:
        return -(-min(spec.span + engine.batched_tokens, max_model_len) // block)
    return _whole_blocks(max_model_len, block, engine)


def _whole_blocks(length: int, block: int, engine: Engine) -> int:
    """Blocks of a rank for all tokens of a request, which decode-context parallelism spreads over ranks."""
    return -(-length // (block * engine.context_parallel))
