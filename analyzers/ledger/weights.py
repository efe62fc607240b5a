"""The tensors that one rank holds: fused, padded, split, replicated and packed as the engine makes them."""

from collections.abc import Iterable, Iterator

import msgspec

from oomctl.analyzers.ledger.absorbed import absorbed_bytes
from oomctl.analyzers.ledger.allocator import CachingAllocator
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.mxfp4 import mxfp4_experts
from oomctl.analyzers.ledger.partition import VOCABULARY_PADDING, kv_heads_per_rank, split, stages
from oomctl.analyzers.ledger.shape import Attention, Layer, Mla, Mlp, ModelShape, Moe, Rope, State
from oomctl.analyzers.ledger.vision import vision_tensors


class Tensor(msgspec.Struct, frozen=True):
    """A tensor of one rank, in the order in which it is made."""

    owner: str
    bytes: int
    scratch: tuple[int, ...] = ()
    """Made before it and freed at once; what they leave in the cache holds later tensors without rounding."""


def rank_tensors(shape: ModelShape, engine: Engine, stage: int = 0) -> list[Tensor]:
    """Every tensor that a rank of this pipeline stage holds once loading is done.

    Raises:
        OomctlError: A dimension does not divide by the tensor-parallel size.
    """
    return list(_Rank(shape, engine).tensors(stage))


def steady_bytes(tensors: Iterable[Tensor]) -> int:
    """What the allocator counts as allocated once these tensors stand."""
    own = CachingAllocator()
    for tensor in tensors:
        scratch = [own.take(size) for size in tensor.scratch]
        own.take(tensor.bytes)
        for taken in scratch:
            own.give_back(taken)
    return own.allocated_bytes


def _rotary(rope: Rope, element_bytes: int) -> Tensor:
    """The table is computed in fp32 on the device: angles, cosines, sines, and both joined, before it is cast."""
    half = rope.positions * rope.dim // 2 * 4
    joined = () if element_bytes == 4 else (2 * half,)
    return Tensor("rotary", rope.positions * rope.dim * element_bytes, (half, half, half, *joined))


def disk_bytes(shape: ModelShape) -> int:
    """Bytes of the checkpoint's tensors: one rank of one, without what the engine adds, tied tensors once."""
    alone = _Rank(msgspec.structs.replace(shape, ropes=()), Engine(), padded=False)
    return sum(tensor.bytes for tensor in alone.tensors(0) if tensor.owner != "absorbed")


class _Rank:
    def __init__(self, shape: ModelShape, engine: Engine, padded: bool = True) -> None:
        self.shape, self.engine, self.tp = shape, engine, engine.tensor_parallel
        self.element = engine.dtype_bytes or shape.element_bytes
        self.padding = VOCABULARY_PADDING if padded else 1
        self.packing_of = shape.quantization.matcher()

    def tensors(self, stage: int) -> Iterator[Tensor]:
        shape, ranks = self.shape, self.engine.pipeline_parallel
        own = stages(len(shape.layers), ranks, self.engine)[stage]
        first, last = stage == 0, stage == ranks - 1
        vocabulary = -(-shape.vocabulary // self.padding) * self.padding
        table = self.split(vocabulary, "vocabulary") * shape.hidden * self.element
        looked_up = self.packing_of("embed_tokens")
        packed = looked_up.packing == "gguf"
        if first and shape.vision is not None:
            parts = 1 if self.engine.encoder_whole else self.tp
            for size in vision_tensors(shape.vision, parts, self.element, self.padding == 1):
                yield Tensor("vision tower", size)
        if first or (last and shape.tied_embeddings):
            rows = vocabulary // self.tp
            yield Tensor("embedding", looked_up.tensors(rows, shape.hidden, self.element)[0] if packed else table)
        if first:
            for elements in shape.beside_embedding:
                yield Tensor("embedding", elements * self.element)
        rotary = [_rotary(rope, rope.element_bytes or self.element) for rope in shape.ropes]
        for index in own:
            yield from self.layer(shape.layers[index], index, rotary)
            rotary = []
        if last:
            yield from self.norm(shape.hidden)
            if not shape.tied_embeddings:
                scheme = self.packing_of("lm_head") if shape.quantization.rules else None
                # A head is packed only where the checkpoint's list leaves it so, and says so by name.
                if scheme is not None and scheme.packing != "none" and self.names_head():
                    yield from self.matrix("head", "lm_head", vocabulary // self.tp, shape.hidden)
                else:
                    yield Tensor("head", table)
            if shape.head_bias:
                yield Tensor("head", vocabulary // self.tp * self.element)
            for layer in self.engine.own_drafts(shape.draft_layers):
                # Embeddings and head are the model's; what joins the token to the last state, and three norms, are its own.
                yield Tensor("draft", 2 * shape.hidden * shape.hidden * self.element)
                yield Tensor("draft", 3 * shape.hidden * self.element)
                yield from self.layer(layer, len(shape.layers), [])

    def names_head(self) -> bool:
        return any("lm_head" in pattern for pattern, _ in self.shape.quantization.rules)

    def layer(self, layer: Layer, index: int, rotary: list[Tensor]) -> Iterator[Tensor]:
        name = f"layers.{index}"
        mixer, feed = layer.mixer, layer.feed_forward
        if isinstance(mixer, Attention):
            yield from self.attention(mixer, name)
        elif isinstance(mixer, Mla):
            yield from self.latent(mixer, name)
        elif isinstance(mixer, State):
            yield from self.state(mixer, name)
        if layer.beside is not None:
            yield from self.state(layer.beside, name)
        yield from rotary
        if isinstance(feed, Mlp):
            yield from self.mlp(feed, f"{name}.mlp", "mlp")
        elif isinstance(feed, Moe):
            yield from self.moe(feed, name)
        for _ in range(layer.norms):
            yield from self.norm(self.shape.hidden)

    def attention(self, own: Attention, name: str) -> Iterator[Tensor]:
        heads, kv_heads = self.heads(own.heads), kv_heads_per_rank(own.kv_heads, self.engine.attention_ranks)
        hidden, prefix = self.shape.hidden, f"{name}.self_attn"
        queries = heads * own.head_dim * (2 if own.gated else 1)
        copied = own.values == "own" or (own.values == "copied" and self.padding > 1)
        out = kv_heads * (own.head_dim + (own.value_dim if copied else 0))
        if own.query_rank:
            yield from self.matrix("attention", f"{prefix}.q_a_proj", own.query_rank, hidden)
            yield from self.norm(own.query_rank)
            yield from self.matrix("attention", f"{prefix}.q_b_proj", queries, own.query_rank)
        else:
            out += queries
        yield from self.matrix("attention", f"{prefix}.q_proj", out, hidden)
        if own.qkv_bias:
            yield Tensor("attention", out * self.element)
        width = heads * own.value_dim
        if own.output_rank:
            yield from self.matrix("attention", f"{prefix}.o_a_proj", own.output_rank, width // own.output_groups)
            width = own.output_groups * own.output_rank // self.engine.attention_ranks
        yield from self.matrix("attention", f"{prefix}.o_proj", hidden, width)
        if own.output_bias:
            yield Tensor("attention", hidden * self.element)
        for count, share in ((own.heads, heads), (own.kv_heads, kv_heads)) if own.qk_norm else ():
            copies = {"head": 1, "heads": share, "whole": count}[own.qk_norm]
            yield Tensor("norm", copies * own.head_dim * self.element)

    def latent(self, own: Mla, name: str) -> Iterator[Tensor]:
        heads, hidden = self.heads(own.heads), self.shape.hidden
        query = heads * (own.nope_dim + own.rope_dim)
        prefix = f"{name}.self_attn"
        compressed = own.kv_rank + own.rope_dim
        if own.query_rank:
            # Down-projections are whole on every rank; newer engines fuse the two.
            yield from self.matrix("attention", f"{prefix}.q_a_proj", own.query_rank + compressed, hidden)
            yield Tensor("norm", own.query_rank * self.element)
            yield from self.matrix("attention", f"{prefix}.q_b_proj", query, own.query_rank)
        else:
            yield from self.matrix("attention", f"{prefix}.q_proj", query, hidden)
            yield from self.matrix("attention", f"{prefix}.kv_a_proj_with_mqa", compressed, hidden)
        yield Tensor("norm", own.kv_rank * self.element)
        yield from self.matrix("attention", f"{prefix}.kv_b_proj", heads * (own.nope_dim + own.value_dim), own.kv_rank)
        yield from self.matrix("attention", f"{prefix}.o_proj", hidden, heads * own.value_dim)
        packed = self.packing_of(f"{prefix}.kv_b_proj")
        for size in absorbed_bytes(own, heads, hidden, self.element, packed, self.engine):
            yield Tensor("absorbed", size)
        if own.index_dim:
            index = own.index_heads * own.index_dim
            into = own.query_rank or hidden
            yield from self.matrix("attention", f"{prefix}.indexer.wq_b", index, into)
            yield from self.matrix("attention", f"{prefix}.indexer.wk", own.index_dim, hidden)
            yield Tensor("attention", own.index_heads * hidden * self.element)

    def state(self, own: State, name: str) -> Iterator[Tensor]:
        ranks = self.engine.attention_ranks
        for module, into, out, how in own.weights:
            rows = split(out, ranks, module) if how == "column" else out
            columns = split(into, ranks, module) if how == "row" else into
            yield from self.matrix("state", f"{name}.{module}", rows, columns)
        yield Tensor("state", own.small_elements * self.element // ranks)
        if own.float32_elements:
            # On disk they are of the model's type.
            yield Tensor("state", own.float32_elements * (4 if self.padding > 1 else self.element) // ranks)

    def mlp(self, own: Mlp, name: str, owner: str) -> Iterator[Tensor]:
        width, hidden = self.split(own.intermediate, "the intermediate size"), self.shape.hidden
        first = "gate_proj" if own.gated else "up_proj"
        yield from self.matrix(owner, f"{name}.{first}", width * (2 if own.gated else 1), hidden)
        yield from self.matrix(owner, f"{name}.down_proj", hidden, width)
        if own.bias:
            yield Tensor(owner, (width * (2 if own.gated else 1) + hidden) * self.element)

    def moe(self, own: Moe, name: str) -> Iterator[Tensor]:
        hidden = own.latent or self.shape.hidden
        ranks = self.engine.expert_ranks
        if self.engine.expert_parallel:
            experts, width = -(-(own.experts + self.engine.redundant_experts) // ranks), own.intermediate
        else:
            experts, width = own.experts, split(own.intermediate, ranks, "the experts' intermediate size")
        yield Tensor("router", own.experts * self.shape.hidden * self.element)
        if own.router_bias:
            yield Tensor("router", own.experts * 4)
        # Gemma 4 has its experts beside the dense layer.
        place = f"{name}.experts.0" if own.dense is not None else f"{name}.mlp.experts.0"
        packing = self.packing_of(f"{place}.gate_proj").packing
        if packing == "mxfp4" and self.padding > 1 and self.engine.name == "vllm":
            for size in mxfp4_experts(width, hidden, own.gated, own.bias, self.engine):
                yield Tensor("experts", experts * size)
        else:
            fold = 2 if own.gated else 1
            yield from self.matrix("experts", f"{place}.gate_proj", fold * width, hidden, experts)
            yield from self.matrix("experts", f"{place}.down_proj", hidden, width, experts)
            if own.bias:
                yield Tensor("experts", experts * (fold * width + hidden) * self.element)
        if own.latent:
            yield from self.matrix("experts", f"{name}.mlp.fc1_latent_proj", hidden, self.shape.hidden)
            yield from self.matrix("experts", f"{name}.mlp.fc2_latent_proj", self.shape.hidden, hidden)
        if own.shared_intermediate:
            shared = Mlp(intermediate=own.shared_intermediate, gated=own.gated)
            yield from self.mlp(shared, f"{name}.mlp.shared_experts", "shared experts")
        if own.shared_gate:
            yield Tensor("shared experts", self.shape.hidden * self.element)
        if own.dense is not None:
            yield from self.mlp(own.dense, f"{name}.mlp", "mlp")

    def norm(self, width: int) -> Iterator[Tensor]:
        yield Tensor("norm", width * self.element)
        if self.shape.norm_bias:
            yield Tensor("norm", width * self.element)

    def matrix(self, owner: str, module: str, out: int, into: int, copies: int = 1) -> Iterator[Tensor]:
        """Tensors of a matrix, or of `copies` of it that lie in one tensor each."""
        for size in self.packing_of(module).tensors(out, into, self.element):
            yield Tensor(owner, size * copies)

    def split(self, count: int, what: str) -> int:
        return split(count, self.tp, what)

    def heads(self, count: int) -> int:
        return split(count, self.engine.attention_ranks, "attention heads")
