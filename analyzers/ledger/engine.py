"""An engine's version and the arguments that move memory."""

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.analyzers.ledger.shape import Layer

KV_FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla", "fp8_inc")
KV_PACKED: dict[str, tuple[int, int]] = {
    "fp8_per_token_head": (8, 4), "int8_per_token_head": (8, 4), "int4_per_token_head": (4, 4),
}  # fmt: skip
"""Bits of an element, and bytes of the scale that each head keeps per token for its key and for its value.
Source: vLLM v1/kv_cache_interface.py, `KVQuantMode`."""


CHUNKS_FROM = (0, 13)
"""vLLM that lets layers of local chunks have blocks of their own; the first that does was not looked up."""
GRAPHS_CHARGED_FROM = (0, 21)
"""vLLM takes its own guess of the graphs from the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS), not what they take."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """What `predict` needs to know of the engine, and of its arguments.

    Args:
        version: As (major, minor).
        v0: vLLM's first engine, which counts blocks and budget in another way; None: by the version.
        data_parallel: Replicas of attention and dense layers; experts are parted over all of them. In SGLang attention is
            parted by them only with `dp_attention`.
        context_parallel: Ranks over which the tokens of a request are spread while decoding.
        redundant_experts: Copies of experts beside the model's own, with expert parallelism.
        draft_tokens: Of speculative decoding; 0 without. With no draft model of its own it is the model's draft layers.
        prefix_caching: None: the version's default.
        gpu_blocks: `--num-gpu-blocks-override`.
        utilization: `--gpu-memory-utilization`; None: the version's default.
        kv_bytes: `--kv-cache-memory-bytes`, which bypasses the budget.
        eager: `--enforce-eager`, or a mode without graphs.
        graph_sizes, graph_limit: Batch sizes of which graphs are captured, and the largest one; None: the default.
        loras, lora_rank, cpu_loras: Adapters in one batch, their largest rank, and how many are kept on the host; no
            adapters where `loras` is 0.
        kv_connector, kv_buffer_bytes: Of `--kv-transfer-config`.
    """

    name: str = "vllm"
    version: tuple[int, int] = (0, 19)
    v0: bool | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: bool = False
    data_parallel: int = 1
    dp_attention: bool = False
    context_parallel: int = 1
    offload_bytes: int = 0
    """`--cpu-offload-gb`: weights of the layers that each rank keeps on the host."""
    encoder_whole: bool = False
    """`--mm-encoder-tp-mode data`: every rank holds the whole vision tower, and takes its share of the images."""
    redundant_experts: int = 0
    utilization: float | None = None
    block_size: int = 16
    max_model_len: int | None = None
    batched_tokens: int = 8192
    max_requests: int = 1024
    dtype_bytes: int | None = None
    kv_dtype: str = "auto"
    quantization: str | None = None
    draft_tokens: int = 0
    draft: Literal["own", "model", "none"] = "own"
    """What drafts: the model's own layers, a model beside it, or no weights at all."""
    prefix_caching: bool | None = None
    gpu_blocks: int | None = None
    kv_bytes: int | None = None
    hybrid_groups: bool = True
    eager: bool = False
    graph_sizes: tuple[int, ...] | None = None
    graph_limit: int | None = None
    loras: int = 0
    lora_rank: int = 16
    cpu_loras: int | None = None
    lora_shards_both: bool = False
    """`--fully-sharded-loras`: both halves of an adapter are split over the ranks."""
    kv_connector: str = ""
    kv_buffer_bytes: int | None = None
    static_share: float | None = None
    """SGLang's `--mem-fraction-static`."""
    max_tokens: int | None = None
    """SGLang's `--max-total-tokens`."""
    window_share: float = 0.8
    """SGLang's `--swa-full-tokens-ratio`: tokens of windowed layers per token of the others."""
    state_share: float = 0.9
    """SGLang's `--mamba-full-memory-ratio`: bytes of recurrent states per byte of keys and values."""
    state_slots: int | None = None
    """SGLang's `--max-mamba-cache-size`."""

    def capture_sizes(self) -> tuple[int, ...]:
        """Batch sizes of which graphs are captured.

        Source: vLLM config/vllm.py, `_set_cudagraph_sizes`: up to twice the requests, at most 512.

        >>> len(Engine().capture_sizes()), Engine(max_requests=4).capture_sizes()
        (51, (1, 2, 4, 8))
        """
        if self.graph_sizes is not None:
            return self.graph_sizes
        most = min(2 * self.max_requests, 512) if self.graph_limit is None else self.graph_limit
        return tuple(size for size in (1, 2, 4, *range(8, 256, 8), *range(256, min(most, 2**14) + 1, 16)) if size <= most)

    @property
    def parts_windows(self) -> bool:
        """Whether windowed layers have blocks of their own, and do not keep everything."""
        return self.hybrid_groups and not self.is_v0

    @property
    def parts_chunks(self) -> bool:
        """Whether layers of local chunks do too: in vLLM off before, and with a drafting head.

        Source: vLLM config/vllm.py; VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is off in 0.12 and on in 0.19.
        """
        if self.name != "vllm":
            return self.parts_windows
        return self.parts_windows and self.version >= CHUNKS_FROM and not (self.draft_tokens and self.draft != "none")

    @property
    def memory_share(self) -> float:
        """Share of the device that vLLM may take.

        Its default rose when the engine began to charge its graphs (`GRAPHS_CHARGED_FROM`). Source: vLLM config/cache.py,
        `gpu_memory_utilization`, whose documentation says 0.9 of 0.6 and 0.92 of what came after 0.21.
        """
        if self.utilization is not None:
            return self.utilization
        return 0.92 if self.name == "vllm" and self.version >= GRAPHS_CHARGED_FROM else 0.9

    def own_drafts(self, layers: "tuple[Layer, ...]") -> "tuple[Layer, ...]":
        """Of a model's draft layers those that are loaded: one, which drafts each token in turn."""
        return layers[:1] if self.draft_tokens and self.draft == "own" else ()

    @property
    def attention_ranks(self) -> int:
        """Ranks over which the heads are parted.

        Raises:
            OomctlError: The replicas of attention do not divide the ranks.
        """
        if not self.dp_attention:
            return self.tensor_parallel
        if self.tensor_parallel % self.data_parallel:
            text = f"{self.data_parallel} replicas of attention do not divide {self.tensor_parallel} tensor-parallel ranks"
            raise OomctlError(text, None, ExitCode.USAGE)
        return self.tensor_parallel // self.data_parallel

    @property
    def expert_ranks(self) -> int:
        """Ranks over which experts are parted: whole ones with expert parallelism, else their widths.

        Source: vLLM layers/fused_moe/config.py, FusedMoEParallelConfig.make: all ranks of all replicas.
        """
        return self.tensor_parallel * (self.data_parallel if self.name == "vllm" else 1)

    @property
    def is_v0(self) -> bool:
        """Whether this is vLLM's first engine: the default before 0.8."""
        return self.name == "vllm" and (self.version < (0, 8) if self.v0 is None else self.v0)

    @property
    def caches_prefixes(self) -> bool:
        """Prefix caching, on by default in V1."""
        return not self.is_v0 if self.prefix_caching is None else self.prefix_caching

    @property
    def kv_is_fp8(self) -> bool:
        """Whether keys and values are kept in one byte."""
        return self.kv_dtype in KV_FP8

    @property
    def kv_scale_bytes(self) -> int:
        """Of the scale that a head keeps per token, for its key and for its value alike; 0 where a tensor has one scale."""
        return KV_PACKED.get(self.kv_dtype, (0, 0))[1]

    def kv_bits(self, model_bytes: int) -> int:
        """Bits of one element of a key or value, without scales."""
        packed = KV_PACKED.get(self.kv_dtype)
        return packed[0] if packed else 8 * self.kv_element_bytes(model_bytes)

    def kv_element_bytes(self, model_bytes: int) -> int:
        """Bytes of one element of a key or value.

        Raises:
            OomctlError: The type is not known.
        """
        if self.kv_is_fp8:
            return 1
        known = {"auto": model_bytes, "bfloat16": 2, "bf16": 2, "float16": 2, "float32": 4}
        if self.kv_dtype not in known:
            raise OomctlError(
                f'KV cache type "{self.kv_dtype[:40]}" is not known',
                f"known: {', '.join([*known, *KV_FP8, *KV_PACKED])}",
                ExitCode.USAGE,
            )
        return known[self.kv_dtype]


def parse_version(text: str) -> tuple[int, int]:
    """(major, minor) of a version.

    >>> parse_version("0.19.0")
    (0, 19)
    """
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})", text.strip())
    if match is None:
        raise OomctlError(f'"{text[:40]}" is no version', "such as 0.19.0", ExitCode.USAGE)
    return int(match[1]), int(match[2])
