"""LoRA adapters: slots that are preallocated on the device, copies that wait on the host, and what merging would take."""

from collections.abc import Iterator

import msgspec

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.partition import kv_heads_per_rank, split
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import Attention, Layer, Mla, Mlp, ModelShape, Moe
from oomctl.analyzers.ledger.weights import steady_bytes
from oomctl.schemas.ledger import Entry

SLOTS = "LoRA slots"
_SOURCE = "vLLM lora/layers (column_parallel_linear.py, row_parallel_linear.py, fused_moe.py), create_lora_weights"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A linear that takes an adapter: its whole input and the outputs of its fused slices, and which side is split."""

    into: int
    outs: tuple[int, ...]
    row: bool
    """Its input is split over the ranks, not its output."""
    copies: int = 1
    """Experts, each with an adapter of its own."""

    def slot_elements(self, lora_rank: int, ranks: int, both: bool) -> int:
        """Elements of one slot on one rank.

        A column-parallel linear keeps the whole A per slice and its share of B; a row-parallel one its share of A and the
        whole B. With `both` the other half is split too.

        >>> Target(into=64, outs=(64, 32), row=False).slot_elements(8, 2, False)
        1408
        >>> Target(into=64, outs=(32,), row=True).slot_elements(8, 2, False)
        512
        """
        other = ranks if both else 1
        if self.row:
            a, b = lora_rank * (self.into // ranks), sum(self.outs) // other * lora_rank
        else:
            a, b = lora_rank // other * self.into * len(self.outs), sum(out // ranks for out in self.outs) * lora_rank
        return self.copies * (a + b)


def targets(layer: Layer, shape: ModelShape, engine: Engine) -> Iterator[Target]:
    """The linears of a layer that vLLM wraps."""
    own, hidden = layer.mixer, shape.hidden
    if isinstance(own, Attention):
        # Replicated KV heads have replicated adapters: what a rank holds, times the ranks.
        kv_heads = kv_heads_per_rank(own.kv_heads, engine.tensor_parallel) * engine.tensor_parallel
        queries = own.heads * own.head_dim * (2 if own.gated else 1)
        yield Target(into=hidden, outs=(queries, kv_heads * own.head_dim, kv_heads * own.value_dim), row=False)
        yield Target(into=own.heads * own.value_dim, outs=(hidden,), row=True)
    elif isinstance(own, Mla):
        yield Target(into=own.query_rank or hidden, outs=(own.heads * (own.nope_dim + own.rope_dim),), row=False)
        yield Target(into=own.kv_rank, outs=(own.heads * (own.nope_dim + own.value_dim),), row=False)
        yield Target(into=own.heads * own.value_dim, outs=(hidden,), row=True)
    feed = layer.feed_forward
    if isinstance(feed, Mlp):
        yield from _mlp(feed.intermediate, hidden, feed.gated)
    elif isinstance(feed, Moe):
        yield from _mlp(feed.intermediate, feed.latent or hidden, feed.gated, feed.experts)
        if feed.shared_intermediate:
            yield from _mlp(feed.shared_intermediate, hidden, feed.gated)


def _mlp(width: int, hidden: int, gated: bool, copies: int = 1) -> Iterator[Target]:
    yield Target(into=hidden, outs=(width,) * (2 if gated else 1), row=False, copies=copies)
    yield Target(into=width, outs=(hidden,), row=True, copies=copies)


def adapters(rank: Rank) -> Entries:
    """Slots as preallocated, an adapter in its slot, those that wait on the host, a merged copy; nothing without LoRA."""
    engine, shape = rank.engine, rank.shape
    if not engine.loras:
        return
    own = [target for layer in rank.layers for target in targets(layer, shape, engine)]
    for target in own:
        split(target.into if target.row else target.outs[0], engine.tensor_parallel, "a LoRA target")
    one = sum(target.slot_elements(engine.lora_rank, engine.tensor_parallel, engine.lora_shards_both) for target in own)
    one *= rank.element_bytes
    formula = "sum over targets of slots x (rank x in x slices + out x rank) x element; the split side / tp"
    slots = rank.exact("adapter", "worker", SLOTS, engine.loras * one, formula, _SOURCE)
    # The engine wraps embeddings and the head only for adapters that have them, which no config tells.
    yield _at_least(slots, "adapters of embeddings, head, routers and recurrent layers are not counted")
    yield rank.exact("adapter", "worker", "one adapter in its slot (hot)", one, formula, _SOURCE, within=SLOTS)
    if rank.stage == 0:
        whole = sum(target.slot_elements(engine.lora_rank, 1, False) for target in own) * rank.element_bytes
        kept = engine.loras if engine.cpu_loras is None else max(engine.cpu_loras, engine.loras)
        formula = "max_cpu_loras x whole adapter of this stage; an evicted one is read from disk again"
        yield rank.exact("adapter", "worker", "adapters on the host (cold)", kept * whole, formula, _SOURCE, place="host")
    merged = steady_bytes(rank.tensors)
    formula = "a copy of the weights for each merged adapter; it needs no slot"
    yield rank.exact("adapter", "headroom", "one adapter merged into a copy", merged, formula, "arithmetic")


def _at_least(entry: Entry, reason: str) -> Entry:
    return msgspec.structs.replace(entry, lower_bound=True, reason=reason)
