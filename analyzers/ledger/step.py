"""The activation peak of a step, and its parts that arithmetic gives; not all of them are alive at once."""

from oomctl.analyzers.ledger import estimates
from oomctl.analyzers.ledger.partition import kv_heads_per_rank
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import Attention, Mla, Mlp, Moe
from oomctl.schemas.ledger import Component, Entry

PEAK = "profiling peak"
"""Owner of the estimate that holds what is listed here."""
SORTED_BYTES = 4 + 8
"""Of a logit that is sorted for top-k and top-p: the value in fp32 and its index."""
CHOICE_BYTES = 4 + 4
"""Of an expert that is chosen for a token: its weight in fp32 and its number."""
_SCALED_TOKENS = ("fp8_channel", "int8_channel", "fp8_tensor")


def peak(rank: Rank) -> Entries:
    """The estimate, and its parts."""
    shape, engine, element = rank.shape, rank.engine, rank.element_bytes
    yield rank.estimated("activation", "iteration", PEAK, estimates.activation(shape, engine, rank.layers, rank.last))
    tokens = engine.batched_tokens
    yield _part(
        rank, "activation", "hidden states", tokens * shape.hidden * element,
        "max_num_batched_tokens x hidden x element", "vLLM v1/worker/gpu_model_runner.py",
    )  # fmt: skip
    widths = [_attended(own, rank) for own in rank.layers_of(Attention)] + [
        _latent(own, rank) for own in rank.layers_of(Mla)
    ]
    widest = max(widths, default=0)
    if widest:
        yield _part(
            rank, "activation", "queries, keys, values, output", tokens * widest * element,
            "max_num_batched_tokens x (fused q, k, v + output) / tp x element", "vLLM model_executor/layers/attention",
        )  # fmt: skip
    dense = max((own.intermediate for own in rank.feeds_of(Mlp)), default=0) // engine.tensor_parallel
    if dense:
        yield _part(
            rank, "activation", "feed-forward", 3 * tokens * dense * element,
            "max_num_batched_tokens x 3 x intermediate / tp x element: gate and up, and what is left of them",
            "vLLM model_executor/layers/activation.py",
        )  # fmt: skip
    yield from _experts(rank)
    yield from _sampled(rank)
    yield from _packed(rank)
    if engine.pipeline_parallel > 1:
        yield _part(
            rank, "activation", "pipeline boundary", estimates.boundary_bytes(shape, engine),
            "2 x max_num_batched_tokens x hidden x element: hidden states and residual; one batch in flight per stage",
            "vLLM make_empty_intermediate_tensors",
        )  # fmt: skip
    if shape.vision is not None and rank.stage == 0:
        reason = "the largest image or video that the processor makes, which no config tells"
        yield rank.unknown("activation", "iteration", "encoder", reason, within=PEAK)


def _part(rank: Rank, component: Component, owner: str, size: int, formula: str, source: str) -> Entry:
    return rank.exact(component, "iteration", owner, size, formula, source, within=PEAK)


def _attended(own: Attention, rank: Rank) -> int:
    ranks = rank.engine.attention_ranks
    queries = own.heads // ranks * own.head_dim * (2 if own.gated else 1)
    keys = kv_heads_per_rank(own.kv_heads, ranks) * (own.head_dim + own.value_dim)
    return queries + keys + own.heads // ranks * own.value_dim


def _latent(own: Mla, rank: Rank) -> int:
    heads = own.heads // rank.engine.attention_ranks
    return heads * (own.nope_dim + own.rope_dim + own.value_dim) + own.kv_rank + own.rope_dim


def _experts(rank: Rank) -> Entries:
    engine, experts = rank.engine, list(rank.feeds_of(Moe))
    if not experts or not all(own.active for own in experts):
        return
    tokens, element = engine.batched_tokens, rank.element_bytes
    widest = max(estimates.routed_bytes(own, rank.shape.hidden, engine, element) for own in experts)
    yield _part(
        rank, "activation", "experts' buffers", widest,
        "tokens x active experts x (max(2 x width, hidden) + width) x element", "vLLM layers/fused_moe/fused_moe.py",
    )  # fmt: skip
    routing = max(tokens * (own.experts * element + (own.active or 0) * (CHOICE_BYTES + 4)) for own in experts)
    yield _part(
        rank, "activation", "routing", routing,
        "tokens x (experts x element + active experts x 12 B): scores, the chosen with their weights, and their order",
        "vLLM layers/fused_moe/router, moe_align_block_size.py",
    )  # fmt: skip


def _sampled(rank: Rank) -> Entries:
    """Logits of the last rank: gathered over all ranks, so that tensor parallelism does not help."""
    if not rank.last:
        return
    words = rank.engine.max_requests * rank.shape.vocabulary
    yield _part(
        rank, "logits", "logits", words * rank.element_bytes, "max_num_seqs x vocabulary x element; gathered, not / tp",
        "vLLM model_executor/layers/logits_processor.py",
    )  # fmt: skip
    yield _part(rank, "logits", "logits in fp32", words * 4, "max_num_seqs x vocabulary x 4 B", "vLLM v1/sample/sampler.py")
    yield _part(
        rank, "logits", "sorted logits", words * SORTED_BYTES,
        "max_num_seqs x vocabulary x 12 B: values and indices, where top-k or top-p is asked for",
        "vLLM v1/sample/ops/topk_topp_sampler.py",
    )  # fmt: skip


def _packed(rank: Rank) -> Entries:
    """Inputs of matrices that are multiplied in eight bits, with their scales."""
    packings = rank.shape.quantization.packings & {*_SCALED_TOKENS, "fp8_block"}
    if not packings:
        return
    feeds = [own.intermediate // rank.engine.tensor_parallel for own in rank.feeds_of(Mlp)]
    widest = max([rank.shape.hidden, *feeds])
    scales = -(-widest // 128) if "fp8_block" in packings else 1
    yield _part(
        rank, "workspace", "quantised inputs", rank.engine.batched_tokens * (widest + 4 * scales),
        "max_num_batched_tokens x (widest input + 4 B per scale): one per token, or per 128 inputs of it",
        "vLLM model_executor/layers/quantization/input_quant_fp8.py",
    )  # fmt: skip
