"""Lines that any PyTorch program may print: transformers, uvicorn, warm-up libraries."""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs import torch_message
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import Size, size

name = "pytorch"
sources = ""
rules = Rules()

_WORKSPACE = Pattern(r"Buffer overflow when allocating memory for \S+ with size (\d+).{0,80}?only (\d+) bytes available")

_SUM = Pattern(
    r"available single GPU memory is ([\d.]{1,20}) MB, which is less than the sum of model weight size "
    r"\(([\d.]{1,20}) MB\) and temporary buffer size \(([\d.]{1,20}) MB\)"
)
"""MLC LLM's, in MB of 2**20 bytes."""

HEADER = HeaderPattern(
    engine=name,
    pattern=re.compile(
        r"(?P<ts>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)Z?[ |:-]+"
        r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)[ |:-]+"
        r"(?:(?P<logger>[\w./-]{1,160}:\d+) - )?"
    ),
    anchor=re.compile(r"DEBUG|INFO|WARNING|ERROR|CRITICAL"),
    year=True,
)


@rules.on("Loading checkpoint shards", r"Loading checkpoint shards: +0%")
@rules.on("loading weights file")
@rules.on("loading configuration file")
@rules.on("Loading weights:", r"Loading weights: +\d{1,2}%")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("Loading checkpoint shards", r"Loading checkpoint shards: +100%")
@rules.on("Loading weights:", r"Loading weights: +100%")
def _loaded(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The bars of transformers, as of 4.x and 5.x."""
    yield phase("weights_loaded", match[0])


@rules.on(
    "expandable_segments:True",
    r"(?<!setting )\bPYTORCH_\w{0,5}ALLOC_CONF\\?['\"]?(?: ?[:=] ?)\\?['\"]?[\w:.,]{0,200}expandable_segments:True",
)
def _expandable(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """Where the environment is printed; PyTorch's own message only advises it."""
    yield manifest("argument", "expandable_segments", "True")


@rules.on("server process [", r"Started server process \[(\d{1,10})\]")
def _server_process(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("process", "server_pid", match[1])


@rules.on("Application startup complete")
@rules.on("Uvicorn running on")
def _ready(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("ready", match[0])


@rules.on("POST /v1/audio", r"\"POST /v1/audio\S* HTTP/[\d.]+\" 200")
@rules.on("POST /v1/images", r"\"POST /v1/images\S* HTTP/[\d.]+\" 200")
@rules.on("POST /v1/videos", r"\"POST /v1/videos\S* HTTP/[\d.]+\" 200")
def _answered(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """A pipeline of stages that print no batches has answered: none of them is warming up."""
    yield phase("serving", "a request was answered")


@rules.on("Shutting down", r"^(?:INFO: +)?Shutting down$")
@rules.on("Shutdown initiated")
def _draining(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("draining", match[0])


@rules.on("Application shutdown complete")
def _stopped(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("stopped", match[0])


@rules.on("load_lora_adapter", r"\"POST /(?:v1/)?load_lora_adapter\b.*HTTP/")
@rules.on("/update_weights", r"\"POST /update_weights\w*.*HTTP/")
def _reloading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("reloading", match[0])


@rules.on(
    "to allocate memory",
    r"LMCache\b.*[Ff]ailed to allocate memory (?:for|obj|during)|"
    r"[Ff]ailed to allocate memory (?:for|obj|during).*(?:lmcache|no memory is available)",
)
def _cache_full(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """LMCache's pool of host memory is full: what it would have kept is computed again."""
    fields = {"resource": "host", "api": "lmcache", "error_type": "cache_pool", "message": record.text.strip()[:1000]}
    yield Fact("oom", {**fields, "fatal": False})


@rules.on("OOM detected", r"OOM detected, (?:falling back|skipping).*")
@rules.on("ut of memory", r"(?i)out of memory.{0,120}(?:falling back|fall back|retry|skipp)")
def _survived(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """An allocation failed, and whoever asked for it did without."""
    parsed = torch_message.parse(record.text)
    fields = {
        "resource": "device",
        "api": "library",
        "error_type": "fallback",
        "message": record.text.strip()[:1000],
        "fatal": False,
    }
    yield Fact("oom", fields | (parsed.fields if parsed is not None else {}))


@rules.on("num_blocks = ", r"PagedAttentionCache initialized with \S*num_blocks = (\d+), \S*block_size = (\d+)")
def _paged(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """transformers' own continuous batching."""
    blocks, each = integer(match[1]), integer(match[2])
    fields = {"tier": "device", "total_blocks": blocks, "block_size_tokens": each, "total_tokens": blocks * each}
    yield Fact("kv_pool", fields)
    yield phase("kv_allocated")


@rules.on("cum KV: ", r"Scheduled: (\d+), Waiting: (\d+), Active: \d+\. cum Q: (\d+)\. cum KV: \d+, free blocks: (\d+)")
def _scheduled(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """A batch of it: each running sequence adds one query token, a prompt all of its own."""
    requests, waiting, tokens, free = (integer(match[index]) for index in (1, 2, 3, 4))
    prefill = max(tokens - requests, 0)
    fields = {"mode": "prefill" if prefill else "decode", "prefill_tokens": prefill}
    yield Fact("step", {**fields, "running_requests": requests, "waiting_requests": waiting})
    yield Fact("kv_pool", {"tier": "device", "free_blocks": free})


_TABLE = {
    "Allocated memory": "allocated_bytes",
    "Active memory": "active_bytes",
    "Requested memory": "requested_bytes",
    "GPU reserved memory": "reserved_bytes",
    "Non-releasable memory": "inactive_split_bytes",
}


@rules.on("CUDA OOMs:", r"CUDA OOMs: (\d{1,12}) +\| +cudaMalloc retries: (\d{1,12})")
def _retries(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """torch.cuda.memory_summary()."""
    yield Fact("allocator", {"num_ooms": integer(match[1]), "num_alloc_retries": integer(match[2])})


def _figure(match: re.Match[str], _: Record) -> Iterator[Fact]:
    amount = size(match[2], match[3])
    if amount is not None:
        yield Fact("allocator", {_TABLE[match[1]]: amount.bytes})


for _row in _TABLE:
    rules.on(f"| {_row}", rf"\| ({_row}) +\| +(\d{{1,15}}) ([KMG]iB|B) +\|")(_figure)


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """Device faults that are not about memory, though their text may say "memory"."""
    if "illegal memory access" in message or "cudaErrorIllegalAddress" in message:
        return Fact("fault", {"code": "illegal_access", "detail": message[:1000], "fatal": True})
    if "No requests can be scheduled and no request can be offloaded" in message:
        return Fact(
            "oom", {"resource": "kv_blocks", "api": "engine", "error_type": "no_free_blocks", "message": message[:2000]}
        )
    if "Watchdog caught collective operation timeout" in message:
        return Fact("fault", {"code": "nccl_timeout", "detail": message[:1000], "fatal": True})
    workspace = _WORKSPACE.search(message)
    if workspace is not None:
        asked, free = int(workspace[1][:18]), int(workspace[2][:18])
        fields = {"resource": "device", "api": "flashinfer", "error_type": "workspace", "message": message[:2000]}
        return Fact("oom", {**fields, "requested_bytes": asked, "free_bytes": free})
    budget = _SUM.search(message)
    if budget is not None:
        return _over_budget(size(budget[1], "MiB"), size(budget[2], "MiB"), size(budget[3], "MiB"), message)
    if "Insufficient VRAM" in message:
        # ExLlama's loaders say so, of the weights and of the cache that each layer brings.
        fields = {"resource": "device", "api": "engine", "error_type": "weights_buffer", "message": message[:2000]}
        return Fact("oom", fields)
    if "out of resource: shared memory" in message:
        return Fact("fault", {"code": "kernel_resources", "detail": message[:1000], "fatal": None})
    return None


def _over_budget(there: Size | None, weights: Size | None, buffers: Size | None, message: str) -> Fact:
    fields: dict[str, object] = {"gate": "kv_blocks", "resource": "device", "message": message[:2000]}
    if there is not None and weights is not None and buffers is not None:
        fields |= {"available_bytes": there.bytes, "needed_bytes": weights.bytes + buffers.bytes}
    return Fact("refusal", fields)
