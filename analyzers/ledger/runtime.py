"""What serving takes beside weights and KV blocks: the peak and its parts, workspaces, collectives, transfers."""

import msgspec

from oomctl.analyzers.ledger import estimates
from oomctl.analyzers.ledger.engine import GRAPHS_CHARGED_FROM
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import Mla, Moe, State
from oomctl.analyzers.ledger.step import PEAK

COLLECTIVES = "driver and collectives"
"""Owner of the estimate that holds what lies outside the framework."""
GRAPHS = "captured graphs"
GRAPHS_CHARGED = "the engine's guess of its graphs"
CUSTOM_REDUCE_BYTES = 2 * 8 * 2**20
"""Buffer and rank data of vLLM's custom all-reduce. Source: vLLM distributed/device_communicators/custom_all_reduce.py."""
SAMPLING_BYTES = 6 * 4
MLA_WORKSPACE_TOKENS = 64 * 1024
"""Source: vLLM model_executor/layers/attention/mla_attention.py, determine_chunked_prefill_workspace_size."""
MLA_WORKSPACE_FROM = (0, 9)
TRANSFER_BUFFER_BYTES = 10**9
"""Source: vLLM config/kv_transfer.py, kv_buffer_size."""
BUFFERED = ("p2pncclconnector", "pyncclconnector", "torchdistributedconnector")
IN_PLACE = ("nixlconnector", "mooncakeconnector", "moriioconnector")


def workspaces(rank: Rank) -> Entries:
    """Buffers of attention kernels."""
    engine = rank.engine
    latent = [own for own in rank.layers_of(Mla) if not own.index_dim]
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
    """Buffers of tensor and expert parallelism; they lie outside the framework."""
    yield rank.estimated("non_torch", "worker", COLLECTIVES, estimates.non_torch(rank.engine))
    yield rank.estimated("context", "worker", "before the first snapshot", estimates.context(rank.engine))
    if rank.engine.tensor_parallel > 1:
        yield rank.exact(
            "collective", "worker", "custom all-reduce", CUSTOM_REDUCE_BYTES, "8 MiB of buffer and 8 MiB of rank data",
            "vLLM custom_all_reduce.py", within=COLLECTIVES,
        )  # fmt: skip
        reason = "which buffers overlapping compute and communication keep alive together was not measured"
        yield rank.unknown("collective", "iteration", "overlap", reason, within=PEAK)
    if rank.engine.expert_parallel and rank.feeds_of(Moe):
        reason = "the buffers of an all-to-all depend on the backend (DeepEP, pplx, ...), which no config tells"
        yield rank.unknown("collective", "worker", "experts' all-to-all", reason, within=COLLECTIVES)


def graphs(rank: Rank) -> Entries:
    """The pool of captured graphs."""
    if rank.engine.eager:
        yield rank.exact("graph_pool", "worker", GRAPHS, 0, "none under --enforce-eager", "vLLM")
        return
    figure = estimates.graphs(rank.shape, rank.engine, rank.layers)
    yield rank.estimated("graph_pool", "worker", GRAPHS, figure)
    if rank.engine.capture_sizes():
        each = estimates.graph_of_one_size(rank.shape, rank.engine, rank.layers)
        yield rank.estimated("graph_pool", "worker", "each captured size", each, within=GRAPHS)
    if rank.engine.version >= GRAPHS_CHARGED_FROM:
        yield rank.estimated("graph_pool", "headroom", GRAPHS_CHARGED, estimates.graph_charge(figure))


def tables(rank: Rank) -> Entries:
    """What is kept per request beside its blocks: tables of block numbers, parameters of sampling, tokens on the host."""
    requests = rank.engine.max_requests
    count = sum(-(-rank.max_model_len // group.block_tokens) for group in rank.kv.groups)
    if count:
        yield rank.exact(
            "other", "worker", "block tables", requests * count * 4,
            "max_num_seqs x blocks of the maximum length x 4 B, per group", "vLLM v1/worker/block_table.py",
        )  # fmt: skip
    yield rank.exact(
        "other", "worker", "token ids", requests * rank.max_model_len * 4, "max_num_seqs x max_model_len x 4 B, pinned",
        "vLLM v1/worker/gpu_input_batch.py", place="host",
    )  # fmt: skip
    if rank.last:
        yield rank.exact(
            "other", "worker", "parameters of sampling", requests * SAMPLING_BYTES,
            "max_num_seqs x 24 B: temperature, top-p, top-k and three penalties; seeds lie on the host",
            "vLLM v1/worker/gpu_input_batch.py",
        )  # fmt: skip


def states(rank: Rank) -> Entries:
    """Recurrent states of vLLM's first engine, which lie outside its blocks."""
    if rank.engine.is_v0 and any(isinstance(layer.mixer, State) or layer.beside is not None for layer in rank.layers):
        reason = "one for each sequence of the largest batch that its graphs are captured for, which was not looked up"
        yield rank.unknown("other", "request", "recurrent states", reason)


def slack(rank: Rank) -> Entries:
    """What the framework's allocator keeps and nobody uses."""
    reason = "how its free pieces lie only the running process knows; the engine gives them back once, after profiling"
    yield rank.unknown("other", "headroom", "cached by the allocator", reason)


def encoder_cache(rank: Rank) -> Entries:
    """Outputs of the vision tower that wait for their request."""
    if rank.shape.vision is None or rank.stage:
        return
    size = rank.engine.batched_tokens * rank.shape.hidden * rank.element_bytes
    entry = rank.exact(
        "other", "request", "encoder cache", size, "max_num_batched_tokens x hidden x element",
        "vLLM v1/core/encoder_cache_manager.py",
    )  # fmt: skip
    yield msgspec.structs.replace(entry, lower_bound=True, reason="one item of more tokens makes it as large as that item")


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
