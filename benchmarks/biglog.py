"""A large log as a busy vLLM server writes it, out of memory near its end. The same bytes every time."""

import random
from collections.abc import Iterator
from pathlib import Path

_CORE = "(EngineCore pid=911) "
_API = "(APIServer pid=840) "
_START = (
    _API + "INFO 05-02 00:00:01 [api_server.py:1381] vLLM API server version 0.26.1",
    _API + "INFO 05-02 00:00:01 [utils.py:241] non-default args: {'model': '/models/harbor-14b', "
    "'max_model_len': 32768, 'gpu_memory_utilization': 0.95}",
    _CORE + "INFO 05-02 00:00:09 [core.py:105] Initializing a V1 LLM engine (v0.26.1) with config: "
    "model='/models/harbor-14b', tensor_parallel_size=1",
    _CORE + "INFO 05-02 00:00:30 [gpu_model_runner.py:5047] Model loading took 27.52 GiB memory and 17.3 seconds",
    _CORE + "INFO 05-02 00:00:52 [gpu_worker.py:471] Available KV cache memory: 45.12 GiB",
    _CORE + "INFO 05-02 00:00:52 [kv_cache_utils.py:1405] GPU KV cache size: 295,696 tokens",
    _API + "INFO:     Application startup complete.",
)
_FRAMES = (
    ("v1/engine/core.py", 902, "run_busy_loop", "self._process_engine_step()"),
    ("v1/worker/gpu_worker.py", 688, "execute_model", "output = self.model_runner.execute_model("),
    (
        "v1/worker/gpu_model_runner.py",
        3391,
        "execute_model",
        "logits_processed = self._get_prompt_logprobs_dict(",
    ),
)
_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.64 GiB. GPU 0 has a total capacity of "
    "79.19 GiB of which 2.31 GiB is free. Including non-PyTorch memory, this process has 76.87 GiB memory in "
    "use. Of the allocated memory 75.02 GiB is allocated by PyTorch, with 544.00 MiB allocated in private pools "
    "(e.g., CUDA Graphs), and 311.00 MiB is reserved by PyTorch but unallocated."
)
_PATHS = ("/v1/chat/completions", "/v1/completions", "/health", "/metrics")
_REQUEST_ERROR = (
    "ERROR:    Exception in ASGI application",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.12/site-packages/starlette/routing.py", line 73, in app',
    "    response = await f(request)",
    '  File "/usr/lib/python3.12/site-packages/vllm/entrypoints/openai/serving_chat.py", line 214, in create',
    "    sampling_params = request.to_sampling_params(default_max_tokens)",
    "ValueError: temperature must be non-negative, got -1.0.",
)


def write(path: Path, size_bytes: int) -> None:
    """Write a log of about that size."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        written = 0
        for line in _START:
            written += file.write(line + "\n")
        serving = _serving(random.Random(20))
        while written < size_bytes - 64 * 1024:
            written += file.write(next(serving) + "\n")
        for line in _crash():
            written += file.write(line + "\n")
        while written < size_bytes:
            written += file.write(next(serving) + "\n")


def write_dense(path: Path, size_bytes: int, *, engine: str = "vllm") -> None:
    """Write a log of about that size of which every line is a report with figures."""
    rng = random.Random(21)
    report = _throughput if engine == "vllm" else _decode
    with path.open("w", encoding="utf-8", newline="\n") as file:
        written, seconds = 0, 60
        while written < size_bytes:
            seconds += 1
            written += file.write(
                report(rng, f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}") + "\n"
            )


def _serving(rng: random.Random) -> Iterator[str]:
    """Access lines, a throughput line every 10 seconds, now and then the traceback of a bad request."""
    seconds = 60
    while True:
        seconds += 1
        clock = f"05-02 {seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        for _ in range(rng.randrange(2, 9)):
            client = f"10.4.{rng.randrange(16)}.{rng.randrange(256)}:{rng.randrange(32768, 60999)}"
            yield f'{_API}INFO:     {client} - "POST {rng.choice(_PATHS)} HTTP/1.1" 200 OK'
        yield f"{_API}INFO {clock} [logger.py:63] Added request chatcmpl-{rng.randrange(16**16):016x}."
        if seconds % 10 == 0:
            yield _throughput(rng, clock.removeprefix("05-02 "))
        if rng.random() < 0.005:
            for line in _REQUEST_ERROR:
                yield _API + line


def _throughput(rng: random.Random, clock: str) -> str:
    return (
        f"{_API}INFO 05-02 {clock} [loggers.py:259] Engine 000: Avg prompt throughput: "
        f"{rng.uniform(500, 9000):.1f} tokens/s, Avg generation throughput: "
        f"{rng.uniform(200, 2500):.1f} tokens/s, Running: {rng.randrange(8, 64)} reqs, "
        f"Waiting: 0 reqs, GPU KV cache usage: {rng.uniform(10, 70):.1f}%, "
        f"Prefix cache hit rate: {rng.uniform(10, 60):.1f}%"
    )


def _decode(rng: random.Random, clock: str) -> str:
    return (
        f"[2026-05-02 {clock} TP0] Decode batch. #running-req: {rng.randrange(1, 99)}, "
        f"#token: {rng.randrange(9999, 99999)}, token usage: {rng.uniform(0, 1):.2f}, cuda graph: True, "
        f"gen throughput (token/s): {rng.uniform(100, 3000):.2f}, #queue-req: {rng.randrange(9)}, "
    )


def _crash() -> Iterator[str]:
    head = f"{_CORE}ERROR 05-02 23:59:58 [core.py:1102] "
    yield head + "EngineCore encountered a fatal error."
    yield head + "Traceback (most recent call last):"
    for file, line, function, code in _FRAMES:
        yield f'{head}  File "/usr/lib/python3.12/site-packages/vllm/{file}", line {line}, in {function}'
        yield f"{head}    {code}"
    yield head + _OOM
