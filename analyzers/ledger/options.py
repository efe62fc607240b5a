"""An engine's options that move memory: the field of Engine that each sets, and how its value is read."""

import re
from collections.abc import Callable
from typing import Any

from oomctl.analyzers.ledger.config import DTYPE_BYTES


def _count(text: str) -> int:
    """8192, 8k (thousands) or 8K (1024s), as vLLM reads them."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([kKmMgG]?)", text)
    if match is None:
        raise ValueError
    scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]]
    return int(float(match[1]) * scale)


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError
    return value


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 < value < 2**16:
        raise ValueError
    return value


def positive(text: str) -> int:
    """A count of at least 1; ValueError where it is none."""
    value = _count(text)
    if value < 1:
        raise ValueError
    return value


def _several(text: str) -> bool:
    return positive(text) > 1


def _gib(text: str) -> int:
    value = float(text)
    if not 0 <= value < 2**20:
        raise ValueError
    return int(value * 2**30)


def _is_data(text: str) -> bool:
    return text == "data"


Reader = tuple[str, Callable[[str], Any]]
"""The field of Engine, and what reads its value or raises ValueError."""
VLLM: dict[str, Reader] = {
    "--tensor-parallel-size": ("tensor_parallel", positive),
    "-tp": ("tensor_parallel", positive),
    "--tp": ("tensor_parallel", positive),
    "--pipeline-parallel-size": ("pipeline_parallel", positive),
    "-pp": ("pipeline_parallel", positive),
    "--pp": ("pipeline_parallel", positive),
    "--data-parallel-size": ("data_parallel", positive),
    "-dp": ("data_parallel", positive),
    "--decode-context-parallel-size": ("context_parallel", positive),
    "-dcp": ("context_parallel", positive),
    "--num-redundant-experts": ("redundant_experts", _count),
    "--gpu-memory-utilization": ("utilization", _share),
    "--block-size": ("block_size", positive),
    "--max-model-len": ("max_model_len", positive),
    "--max-num-batched-tokens": ("batched_tokens", positive),
    "--max-num-seqs": ("max_requests", positive),
    "--kv-cache-dtype": ("kv_dtype", str),
    "--quantization": ("quantization", str),
    "-q": ("quantization", str),
    "--num-gpu-blocks-override": ("gpu_blocks", positive),
    "--kv-cache-memory-bytes": ("kv_bytes", positive),
    "--kv-cache-memory": ("kv_bytes", positive),
    "--max-loras": ("loras", positive),
    "--max-lora-rank": ("lora_rank", positive),
    "--max-cpu-loras": ("cpu_loras", positive),
    "--num-speculative-tokens": ("draft_tokens", positive),
    "--mm-encoder-tp-mode": ("encoder_whole", _is_data),
    "--cpu-offload-gb": ("offload_bytes", _gib),
}
"""vLLM's options with a value."""
VLLM_FLAGS: dict[str, tuple[str, Any]] = {
    "--enable-expert-parallel": ("expert_parallel", True),
    "--enable-prefix-caching": ("prefix_caching", True),
    "--no-enable-prefix-caching": ("prefix_caching", False),
    "--disable-hybrid-kv-cache-manager": ("hybrid_groups", False),
    "--enforce-eager": ("eager", True),
    "--fully-sharded-loras": ("lora_shards_both", True),
}
SGLANG: dict[str, Reader] = {
    "--tp-size": ("tensor_parallel", positive),
    "--tensor-parallel-size": ("tensor_parallel", positive),
    "--tp": ("tensor_parallel", positive),
    "--pp-size": ("pipeline_parallel", positive),
    "--pipeline-parallel-size": ("pipeline_parallel", positive),
    "--dp-size": ("data_parallel", positive),
    "--data-parallel-size": ("data_parallel", positive),
    "--dp": ("data_parallel", positive),
    "--ep-size": ("expert_parallel", _several),
    "--expert-parallel-size": ("expert_parallel", _several),
    "--ep": ("expert_parallel", _several),
    "--ep-num-redundant-experts": ("redundant_experts", _count),
    "--mem-fraction-static": ("static_share", _share),
    "--context-length": ("max_model_len", positive),
    "--page-size": ("block_size", positive),
    "--chunked-prefill-size": ("batched_tokens", positive),
    "--max-running-requests": ("max_requests", positive),
    "--cuda-graph-max-bs": ("graph_limit", positive),
    "--kv-cache-dtype": ("kv_dtype", str),
    "--quantization": ("quantization", str),
    "--max-total-tokens": ("max_tokens", positive),
    "--swa-full-tokens-ratio": ("window_share", _share),
    "--mamba-full-memory-ratio": ("state_share", _ratio),
    "--max-mamba-cache-size": ("state_slots", positive),
    "--cpu-offload-gb": ("offload_bytes", _gib),
}
"""SGLang's options with a value."""
SGLANG_FLAGS: dict[str, tuple[str, Any]] = {
    "--disable-cuda-graph": ("eager", True),
    "--disable-hybrid-swa-memory": ("hybrid_groups", False),
    "--enable-ep-moe": ("expert_parallel", True),
    "--enable-dp-attention": ("dp_attention", True),
}
# They move memory, and the ledger does not count it yet: said, never passed over.
NOT_COUNTED = (
    "--lora-paths", "--attn-cp-size", "--prefill-context-parallel-size",
)  # fmt: skip
TYPES = {"auto", *DTYPE_BYTES}
