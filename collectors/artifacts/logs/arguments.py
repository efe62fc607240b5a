"""Engine arguments as a log prints them: a Python dict, a Namespace, a Rust struct, or `key=value` pairs."""

from collections.abc import Iterator, Sequence

from oomctl.collectors.artifacts.logs.fact import Fact, manifest
from oomctl.collectors.artifacts.logs.pattern import Pattern

_PAIR = Pattern(
    r"""(?:^|[\s,{(])(?:'(?P<quoted>[\w.-]{1,64})'\s*:|(?P<bare>[A-Za-z_]\w{1,63})=)\s*"""
    r"""(?:Some\((?=[^()\n]{1,300}\)))?(?P<value>'[^'\n]{0,300}'|"[^"\n]{0,300}"|[^\s,{}()\[\]]{1,200})"""
)
"""Rust prints what may be absent as `Some(value)`, or as `None`."""
_OBJECT = Pattern(
    r"""(?:^|[\s,{(])['"]?(limit_mm_per_prompt|limit_mm_data_per_request|mm_processor_kwargs|mm_process_config)['"]?"""
    r"""\s*[:=]\s*(\{(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,300}\})"""
)
"""Arguments whose value is an object."""
KEPT = frozenset(
    {
        "model", "model_path", "served_model_name", "tokenizer", "dtype", "max_model_len", "max_seq_len", "context_length",
        "gpu_memory_utilization", "mem_fraction_static", "max_num_seqs", "max_num_batched_tokens", "max_running_requests",
        "chunked_prefill_size", "max_prefill_tokens", "max_total_tokens", "tensor_parallel_size", "tp_size",
        "pipeline_parallel_size", "pp_size", "data_parallel_size", "dp_size", "expert_parallel_size", "ep_size",
        "enable_expert_parallel", "quantization", "kv_cache_dtype", "kv_cache_memory_bytes", "block_size", "page_size",
        "num_gpu_blocks_override", "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "load_format",
        "swap_space", "cpu_offload_gb", "enable_lora", "max_loras", "max_lora_rank", "enable_sleep_mode",
        "speculative_config", "speculative_algorithm", "cuda_graph_max_bs", "disable_cuda_graph", "disaggregation_mode",
        "nnodes", "node_rank", "kv_transfer_config", "max_logprobs", "device", "device_map", "attention_backend",
        "max_concurrency", "cudagraph_capture_sizes", "max_cudagraph_capture_size", "cuda_graph_sizes",
        "cuda_graph_max_bs_decode", "max_cpu_loras", "max_loras_per_batch", "schedule_conservativeness", "hicache_size",
        "hicache_ratio", "kv_offloading_size", "mm_processor_cache_gb", "max_batch_prefill_tokens",
        "max_batch_total_tokens", "max_input_tokens", "max_input_length", "cuda_memory_fraction", "num_shard",
        "free_gpu_memory_fraction", "max_num_tokens", "max_batch_size", "cache_max_entry_count", "session_len",
        "quant_policy", "mm_encoder_tp_mode", "skip_mm_profiling",
    }
)  # fmt: skip
"""Arguments that matter for memory; the rest of a 10 KiB argument dump stays in the log."""


_FLAG = Pattern(r"^--?([A-Za-z][\w-]{1,63})(?:=(.{1,200}))?$")


def flags(words: Sequence[str]) -> Iterator[Fact]:
    """Manifest rows of the arguments on a command line, its words apart: `--swap-space=16`, or `--swap-space`, `16`."""
    for word, after in zip(words, [*words[1:], ""], strict=False):
        match = _FLAG.match(word)
        key = match[1].replace("-", "_") if match is not None else ""
        if match is not None and key in KEPT:
            value = match[2] or (after if after and not after.startswith("-") else "True")
            yield manifest("argument", key, value)


def arguments(text: str) -> Iterator[Fact]:
    """Manifest rows of the arguments that a text prints, each key once, its first value."""
    seen: set[str] = set()
    for match in _PAIR.finditer(text[:32768]):
        key = match["quoted"] or match["bare"]
        value = match["value"].strip("'\"")
        if key in KEPT and key not in seen and value != "None":
            seen.add(key)
            yield manifest("argument", key, value)
    for match in _OBJECT.finditer(text[:32768]):
        if match[1] not in seen:
            seen.add(match[1])
            yield manifest("argument", match[1], match[2].replace("'", '"'))
