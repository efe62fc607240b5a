"""Which part of a path is public: what belongs to an open-source package, to Python, or to the system itself."""

import re

PACKAGES = (
    "vllm", "vllm_omni", "vllm_ascend", "sglang", "sgl_kernel", "torch", "torchvision", "torchaudio", "transformers",
    "triton", "tensorrt_llm", "lmdeploy", "turbomind", "ray", "flashinfer", "lmcache", "text_generation_server",
    "lorax_server", "verl", "trl", "xformers", "accelerate", "safetensors", "peft", "deepspeed", "megatron", "flash_attn",
    "bitsandbytes", "uvicorn", "fastapi", "starlette", "uvloop", "gunicorn", "pydantic", "typer", "click", "rich", "numpy",
    "huggingface_hub", "tokenizers", "xgrammar", "outlines", "compressed_tensors", "aiohttp", "anyio", "zmq", "cupy",
    "openai", "tqdm", "grpc", "prometheus_client", "opentelemetry", "nixl", "mooncake", "c10", "aten", "caffe2", "csrc",
    "ggml", "llama.cpp", "ollama", "diffusers", "optimum", "auto_gptq", "awq", "torch_npu", "cumem",
    "intel_extension_for_pytorch",
)  # fmt: skip
"""By the names that their sources are imported or kept under."""
_NAMES = "|".join(map(re.escape, PACKAGES))
_PACKAGE = re.compile(
    rf"(?:^|[\\/])(?P<rest>(?:(?:site-packages|dist-packages|python)[\\/])?(?:{_NAMES})(?:[\\/]\S*|\.py\w?$))"
)
_STANDARD = re.compile(r"(?:^|[\\/])(?P<rest>(?:lib[\\/])?python3(?:\.\d{1,2}t?)?[\\/](?!(?:site|dist)-packages)\S*)")
_MADE_UP = re.compile(r"<(?:frozen [\w.]+|string|stdin|unknown|eval_with_key|fstring|module|lambda)>[.\d]*")
_LIBRARY = re.compile(
    r"lib(?:c|m|dl|rt|pthread|gcc_s|stdc\+\+|cuda|cudart|cublas|cublasLt|cudnn\w*|cufft|curand|cusparse|cusolver|nvrtc|nccl"
    r"|nvidia-\w+|nvshmem\w*|nvidia_\w+|amdhip64|hsa-runtime64|rccl|rocblas|torch|torch_\w+|c10|c10_\w+|python3\S*|jemalloc"
    r"|tcmalloc\w*|mpi|ibverbs|uv|tensorrt_llm\w*|nvinfer\w*|ggml[\w-]*|llama)\.(?:so|a)[\d.]*"
)
_SYSTEM = re.compile(
    r"/(?:dev/(?:shm|null|nvidia\w*|dri|kfd|mem|zero|infiniband)|proc/(?:self|meminfo|sys/vm/\w+|\d+/\w+)|sys/fs/cgroup|tmp|etc"
    r"|v[12]/(?:chat/|audio/)?(?:completions|embeddings|models|responses|messages|rerank|score|transcriptions)"
    r"|(?:health|metrics|generate|ping|version|load|tokenize|detokenize|rerank|score|pooling|sleep|wake_up|abort_request"
    r"|is_sleeping|flush_cache|get_model_info|get_server_info|health_generate|api/(?:generate|chat|tags|embed|ps|show)))/?"
)
"""Places that every system has, and the addresses of public APIs."""


def public_part(path: str) -> str | None:
    """From the package on, of a source file of one; the file's name, of a known library; None of everything else."""
    if _MADE_UP.fullmatch(path):
        return path
    last = re.split(r"[\\/]", path)[-1]
    found = _PACKAGE.search(path) or _STANDARD.search(path)
    if found is not None:
        return found["rest"]
    return last if _LIBRARY.fullmatch(last) else None


def is_system(path: str) -> bool:
    """Whether every system, or every server of an engine, has this path."""
    return _SYSTEM.fullmatch(path) is not None
