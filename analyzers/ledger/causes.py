"""Which settings of a deployment bear on which component of its memory."""

_PARTED = ("weights", "adapter", "kv_pool", "activation", "workspace", "collective", "graph_pool", "non_torch", "context")
_STEP = ("activation", "logits", "workspace", "graph_pool", "other")
_BEARS: dict[str, tuple[str, ...]] = {
    "tensor_parallel": (*_PARTED, "other"),
    "pipeline_parallel": (*_PARTED, "logits", "other"),
    "weight_format": ("weights", "activation", "other"),
    "kv_format": ("kv_pool", "workspace", "other"),
    "device_bytes": ("kv_pool",),
    "max_model_len": ("kv_pool", "workspace", "other"),
    "--enable-expert-parallel": ("weights", "collective", "activation", "other"),
    "--cpu-offload-gb": ("weights", "kv_pool", "other"),
    "--mm-encoder-tp-mode": ("weights", "other"),
    "--max-num-seqs": _STEP,
    "--max-running-requests": _STEP,
    "--max-num-batched-tokens": ("kv_pool", *_STEP),
    "--chunked-prefill-size": ("kv_pool", *_STEP),
    "--max-loras": ("adapter", "other"),
    "--max-lora-rank": ("adapter", "other"),
    "--max-cpu-loras": ("adapter",),
    "--fully-sharded-loras": ("adapter", "other"),
    "--enforce-eager": ("graph_pool", "other"),
    "--disable-cuda-graph": ("graph_pool", "other"),
    "--cudagraph-capture-sizes": ("graph_pool", "other"),
    "--max-cudagraph-capture-size": ("graph_pool", "other"),
    "--cuda-graph-max-bs": ("graph_pool", "kv_pool", "other"),
    "--num-speculative-tokens": ("weights", "kv_pool", "other"),
}
_POOL_ALONE = (
    "--gpu-memory-utilization", "--block-size", "--page-size", "--num-gpu-blocks-override", "--kv-cache-memory-bytes",
    "--enable-prefix-caching", "--no-enable-prefix-caching", "--disable-hybrid-kv-cache-manager", "--mem-fraction-static",
    "--max-total-tokens", "--swa-full-tokens-ratio", "--mamba-full-memory-ratio", "--max-mamba-cache-size",
    "--disable-hybrid-swa-memory",
)  # fmt: skip


def bearing(setting: str, component: str) -> bool:
    """Whether a setting moves a component; the model and the engine itself may move each of them.

    >>> bearing("--max-num-seqs", "logits"), bearing("--max-num-seqs", "weights"), bearing("engine_version", "weights")
    (True, False, True)
    """
    if setting in _POOL_ALONE:
        return component == "kv_pool"
    return component in _BEARS[setting] if setting in _BEARS else True
