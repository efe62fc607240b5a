"""What serving takes beside weights and KV blocks: the peak and its parts, workspaces, collectives, transfers."""

from oomctl.analyzers.ledger import estimates
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import Mla, Moe

PEAK, COLLECTIVES = "profiling peak", "driver and collectives"
"""Owners of the estimates that hold most of what is listed here."""
GRAPHS_CHARGED = "graphs as the engine guesses and charges them"
GRAPHS_CHARGED_FROM = (0, 21)
"""vLLM takes its own guess of the graphs from the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS), not what they take."""
CUSTOM_REDUCE_BYTES = 2 * 8 * 2**20
"""Buffer and rank data of vLLM's custom all-reduce. Source: vLLM distributed/device_communicators/custom_all_reduce.py."""
MLA_WORKSPACE_TOKENS = 64 * 1024
"""Source: vLLM model_executor/layers/attention/mla_attention.py, determine_chunked_prefill_workspace_size."""
MLA_WORKSPACE_FROM = (0, 9)
TRANSFER_BUFFER_BYTES = 10**9
"""Source: vLLM config/kv_transfer.py, kv_buffer_size."""
BUFFERED = ("p2pncclconnector", "pyncclconnector", "torchdistributedconnector")
IN_PLACE = ("nixlconnector", "mooncakeconnector", "moriioconnector")


def peak(rank: Rank) -> Entries:
    """The activation peak, and its parts that arithmetic gives; not all of them are alive at once."""
    shape, engine, element = rank.shape, rank.engine, rank.element_bytes
    yield rank.estimated("activation", "iteration", PEAK, estimates.activation(shape, engine, rank.layers, rank.last))
    states = engine.batched_tokens * shape.hidden * element
    yield rank.exact(
        "activation", "iteration", "hidden states", states, "max_num_batched_tokens x hidden x element",
        "vLLM v1/worker/gpu_model_runner.py", within=PEAK,
    )  # fmt: skip
    if rank.last:
        words = engine.max_requests * shape.vocabulary
        yield rank.exact(
            "logits", "iteration", "logits", words * element, "max_num_seqs x vocabulary x element; gathered, not / tp",
            "vLLM model_executor/layers/logits_processor.py", within=PEAK,
        )  # fmt: skip
        yield rank.exact(
            "logits", "iteration", "logits in fp32", words * 4, "max_num_seqs x vocabulary x 4 B",
            "vLLM v1/sample/sampler.py", within=PEAK,
        )  # fmt: skip
    experts = [layer.feed_forward for layer in rank.layers if isinstance(layer.feed_forward, Moe)]
    if experts:
        yield from _routed(rank, experts)
    if engine.pipeline_parallel > 1:
        yield rank.exact(
            "activation", "iteration", "pipeline boundary", estimates.boundary_bytes(shape, engine),
            "2 x max_num_batched_tokens x hidden x element: hidden states and residual; one batch in flight per stage",
            "vLLM make_empty_intermediate_tensors", within=PEAK,
        )  # fmt: skip


def _routed(rank: Rank, experts: list[Moe]) -> Entries:
    engine = rank.engine
    if all(own.active for own in experts):
        sizes = [
            estimates.routed_bytes(own, rank.shape.hidden, engine.batched_tokens, engine.expert_ranks, rank.element_bytes)
            for own in experts
        ]
        yield rank.exact(
            "activation", "iteration", "experts' buffers", max(sizes),
            "tokens x active experts x (max(2 x width, hidden) + width) x element", "vLLM layers/fused_moe/fused_moe.py",
            within=PEAK,
        )  # fmt: skip
    if engine.expert_parallel:
        reason = "the buffers of an all-to-all depend on the backend (DeepEP, pplx, ...), which no config tells"
        yield rank.unknown("collective", "worker", "experts' all-to-all", reason, within=COLLECTIVES)


def workspaces(rank: Rank) -> Entries:
    """Buffers of attention kernels."""
    engine = rank.engine
    latent = [layer.mixer for layer in rank.layers if isinstance(layer.mixer, Mla) and not layer.mixer.index_dim]
    if latent and engine.name == "vllm" and engine.version >= MLA_WORKSPACE_FROM:
        own = latent[0]
        tokens = min(max(8 * rank.max_model_len, 4 * engine.max_requests * engine.block_size), MLA_WORKSPACE_TOKENS)
        yield rank.exact(
            "workspace", "worker", "MLA's chunked prefill", tokens * (own.kv_rank + own.rope_dim) * rank.element_bytes,
            "min(max(8 x max_model_len, 4 x max_num_seqs x block), 65536) x row x element", "vLLM mla_attention.py",
        )  # fmt: skip
        heads = own.heads // engine.attention_ranks
        yield rank.exact(
            "workspace", "iteration", "MLA's projected context",
            tokens * heads * (own.nope_dim + own.value_dim) * rank.element_bytes,
            "those tokens x heads / tp x (nope + value) x element", "vLLM mla_attention.py", within=PEAK,
        )  # fmt: skip
    reason = "depends on the attention backend, which no config tells (FlashInfer takes 394 MiB in vLLM 0.19)"
    yield rank.unknown("workspace", "headroom", "other attention backends", reason)
    if engine.kv_scale_bytes or engine.kv_is_fp8:
        reason = "kernels that read packed keys take none; of those that unpack them none was measured"
        yield rank.unknown("workspace", "iteration", "dequantised keys and values", reason, within=PEAK)


def collectives(rank: Rank) -> Entries:
    """Buffers of tensor parallelism; they lie outside the framework."""
    yield rank.estimated("non_torch", "worker", COLLECTIVES, estimates.non_torch(rank.engine))
    yield rank.estimated("context", "worker", "before the first snapshot", estimates.context(rank.engine))
    if rank.engine.tensor_parallel > 1:
        yield rank.exact(
            "collective", "worker", "custom all-reduce", CUSTOM_REDUCE_BYTES, "8 MiB of buffer and 8 MiB of rank data",
            "vLLM custom_all_reduce.py", within=COLLECTIVES,
        )  # fmt: skip
        reason = "which buffers overlapping compute and communication keep alive together was not measured"
        yield rank.unknown("collective", "iteration", "overlap", reason, within=PEAK)


def graphs(rank: Rank) -> Entries:
    """The pool of captured graphs."""
    if rank.engine.eager:
        yield rank.exact("graph_pool", "worker", "captured graphs", 0, "none under --enforce-eager", "vLLM")
        return
    figure = estimates.graphs(rank.shape, rank.engine, rank.layers)
    yield rank.estimated("graph_pool", "worker", "captured graphs", figure)
    if rank.engine.version >= GRAPHS_CHARGED_FROM:
        yield rank.estimated("graph_pool", "headroom", GRAPHS_CHARGED, estimates.graph_charge(figure))


def tables(rank: Rank) -> Entries:
    """Block tables: one row of block numbers per request and group of layers."""
    count = sum(-(-rank.max_model_len // group.block_tokens) for group in rank.kv.groups)
    if count:
        yield rank.exact(
            "other", "worker", "block tables", rank.engine.max_requests * count * 4,
            "max_num_seqs x blocks of the maximum length x 4 B, per group", "vLLM v1/worker/block_table.py",
        )  # fmt: skip


def transfers(rank: Rank) -> Entries:
    """Buffers of disaggregated serving, on the sending and the receiving side alike; nothing without a connector."""
    name, engine = rank.engine.kv_connector, rank.engine
    if not name:
        return
    if name.lower() in BUFFERED:
        size = TRANSFER_BUFFER_BYTES if engine.kv_buffer_bytes is None else engine.kv_buffer_bytes
        yield rank.exact("transfer", "worker", name, size, "kv_buffer_size", "vLLM config/kv_transfer.py")
    elif name.lower() in IN_PLACE:
        yield rank.exact(
            "transfer", "worker", name, 0, "none: the KV pool itself is registered and read by the peer",
            "vLLM distributed/kv_transfer/kv_connector",
        )  # fmt: skip
    else:
        yield rank.unknown("transfer", "worker", name, "what this connector buffers was not looked up")
