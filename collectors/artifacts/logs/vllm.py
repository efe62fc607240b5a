"""vLLM's log lines, V0 and V1, 0.6 to 0.33.

Source of the formats: vllm/worker/*, vllm/v1/worker/gpu_worker.py, gpu_model_runner.py, v1/core/kv_cache_utils.py,
v1/metrics/loggers.py, logging_utils/dump_input.py of the releases. V0 prints "GB" and divides by 2**30.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs import vllm_dump, vllm_exceptions
from oomctl.collectors.artifacts.logs.arguments import arguments
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, gib, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.record import Record

name = "vllm"
rules = Rules()
rules.include(vllm_dump.rules)
exception = vllm_exceptions.exception

HEADER = HeaderPattern(
    engine=name,
    pattern=re.compile(
        r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<ts>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? )?"
        r"(?:\[(?P<logger>[\w./<>-]{1,160}:\d+)\]|(?P<logger0>[\w./-]{1,160}\.py:\d+)\]) ?"
    ),
    anchor=re.compile(r"\w:\d+\]"),
    year=False,
)

_G = r"(-?[\d.]+) ?GiB"
_COUNTS = re.compile(r"(Running|Waiting|Pending|Swapped|Preemptions): (\d+)")
_COUNTED = {
    "Running": "running_requests",
    "Waiting": "waiting_requests",
    "Pending": "waiting_requests",
    "Swapped": "swapped_requests",
    "Preemptions": "preempted_requests",
}


@rules.on("vLLM API server version", r"vLLM API server version (\S+)")
def _api_server(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", "API server")
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", match[1].lstrip("v"))


@rules.on("LLM engine (v", r"Initializing an? (V1 )?LLM engine \(v([^)\s]+)\)(?: with config: (.*))?")
def _engine(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", "engine core")
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", match[2])
    yield from arguments(match[3] or "")


@rules.on("non-default args:", r"non-default args: (\{.*)")
@rules.on("args: Namespace(", r"args: (Namespace\(.*)")
def _arguments(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from arguments(match[1])


@rules.on("max_num_batched_tokens=", r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")
def _batched(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("argument", "max_num_batched_tokens", match[1])


@rules.on("Defaulting max_num_", r"Defaulting (max_num_seqs|max_num_batched_tokens) to (\d+)")
def _defaulting(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("argument", match[1], match[2])


@rules.on(
    "Loaded weight", r"Loaded weight (?:\S*\.)?(lm_head|embed_tokens)\.weight with shape torch\.Size\(\[(\d+), (\d+)\]\)"
)
def _vocabulary(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The rows of the output projection are the vocabulary (padded, of this rank)."""
    yield manifest("model", "vocab_rows" if match[1] == "lm_head" else "embedding_rows", match[2])


@rules.on("rank=", r"world_size=(\d+) rank=(\d+) local_rank=(\d+)")
def _rank(match: re.Match[str], _: Record) -> Iterator[Fact]:
    common = {"rank": integer(match[2]), "device_id": integer(match[3])}
    yield Fact("manifest", {"section": "parallelism", "key": "world_size", "value": match[1]}, common)


@rules.on("in world size", r"rank (\d+) in world size (\d+) is assigned as DP rank (\d+), PP rank (\d+)")
def _assigned(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("manifest", {"section": "parallelism", "key": "world_size", "value": match[2]}, {"rank": integer(match[1])})


@rules.on("Starting to load model")
@rules.on("Loading safetensors checkpoint shards", r"shards: +(?:0|1?\d)% Completed")
@rules.on("Loading weights on")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("oading", r"(?:Model loading took|Loading model weights took) ([\d.]+) (?:GiB|GB)")
def _loaded(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("weights", gib(match[1]), owner="steady")
    yield phase("weights_loaded")


@rules.on("Peak GPU memory after loading", rf"Peak GPU memory after loading weights: {_G}")
def _load_peak(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("weights", gib(match[1]), owner="load_peak")


@rules.on(
    "memory snapshot:", r"memory snapshot: .*?free_memory=([\d.]+)GiB, total_memory=([\d.]+)GiB, cuda_memory=([\d.]+)GiB"
)
def _snapshot(match: re.Match[str], record: Record) -> Iterator[Fact]:
    free, total, used = gib(match[1]), gib(match[2]), gib(match[3])
    if free is not None and total is not None and used is not None:
        yield Fact(
            "device",
            {
                "free_bytes": free.bytes,
                "total_bytes": total.bytes,
                "used_bytes": used.bytes,
                "resolution_bytes": max(free.resolution, total.resolution, used.resolution),
            },
        )


@rules.on("requested memory:", r"worker requested memory: ([\d.]+)GiB")
@rules.on("Requested memory:", rf"Requested memory: [\d.]+ \(util\), {_G}")
def _budget(match: re.Match[str], _: Record) -> Iterator[Fact]:
    budget = gib(match[1])
    if budget is not None:
        yield Fact("device", {"budget_bytes": budget.bytes, "resolution_bytes": budget.resolution})


@rules.on("non_torch_memory=", r"total_gpu_memory=([\d.]+)GiB initial_memory_usage=([\d.]+)GiB")
def _v0_profile(match: re.Match[str], record: Record) -> Iterator[Fact]:
    total, initial = gib(match[1]), gib(match[2])
    figures = dict(re.findall(r"(\w+)=(-?[\d.]+)GiB", record.text))
    yield phase("profiling")
    if total is not None and initial is not None:
        yield Fact(
            "device",
            {
                "total_bytes": total.bytes,
                "used_bytes": initial.bytes,
                "resolution_bytes": max(total.resolution, initial.resolution),
            },
        )
    yield from memory(
        "activation", gib(figures.get("peak_torch_memory", "")), lifetime="iteration", owner="peak_with_weights"
    )
    yield from memory("non_torch", gib(figures.get("non_torch_memory", "")))
    yield from memory("kv_pool", gib(figures.get("kv_cache_size", "")), owner="available")
    utilization = re.search(r"gpu_memory_utilization=([\d.]+)", record.text)
    if utilization is not None:
        yield manifest("argument", "gpu_memory_utilization", utilization[1].rstrip("."))


@rules.on("gpu_memory_utilization", rf"total_gpu_memory \({_G}\) x gpu_memory_utilization \(([\d.]+)\) = {_G}")
def _v0_budget(match: re.Match[str], _: Record) -> Iterator[Fact]:
    total, budget = gib(match[1]), gib(match[3])
    yield phase("profiling")
    yield manifest("argument", "gpu_memory_utilization", match[2])
    if total is not None and budget is not None:
        yield Fact(
            "device",
            {
                "total_bytes": total.bytes,
                "budget_bytes": budget.bytes,
                "resolution_bytes": max(total.resolution, budget.resolution),
            },
        )


@rules.on("model weights take", rf"model weights take {_G}")
def _v0_weights(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("weights", gib(match[1]), owner="steady")


@rules.on("non_torch_memory takes", rf"non_torch_memory takes {_G}")
def _v0_non_torch(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("non_torch", gib(match[1]))


@rules.on("activation peak memory takes", rf"PyTorch activation peak memory takes {_G}")
def _v0_activation(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("activation", gib(match[1]), lifetime="iteration", owner="peak")


@rules.on("reserved for KV Cache is", rf"reserved for KV Cache is {_G}")
def _v0_kv(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("kv_pool", gib(match[1]), owner="available")


@rules.on("Total non KV cache memory", r"Total non KV cache memory: ([\d.]+)GiB")
def _v1_profile(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield phase("profiling")
    for component, lifetime, owner, label in (
        ("activation", "iteration", "peak", r"torch peak memory increase"),
        ("non_torch", "worker", "forward_increase", r"non-torch forward increase memory"),
        ("weights", "worker", "steady", r"weights memory"),
    ):
        found = re.search(rf"{label}: ([\d.]+)GiB", record.text)
        if found is not None:
            yield from memory(component, gib(found[1].rstrip(".")), lifetime=lifetime, owner=owner)


@rules.on("Available KV cache memory", rf"Available KV cache memory: {_G}")
def _available(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("kv_pool", gib(match[1]), owner="available")


@rules.on(
    "KV cache size:",
    r"(\w+) KV cache size: ([\d,]+) tokens(?:, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x)?",
)
def _kv_size(match: re.Match[str], _: Record) -> Iterator[Fact]:
    fields: dict[str, object] = {"tier": "device" if match[1] != "CPU" else "host", "total_tokens": integer(match[2])}
    if match[4] is not None:
        fields["max_concurrency"] = float(match[4])
    yield Fact("kv_pool", fields)
    yield phase("kv_allocated")


@rules.on("Maximum concurrency for", r"^Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
def _concurrency(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "max_concurrency": float(match[2])})
    yield manifest("argument", "max_model_len", match[1].replace(",", ""))


@rules.on(" blocks: ", r"# (?:GPU|cuda|\w+) blocks: (\d+), # CPU blocks: (\d+)")
@rules.on("num_gpu_blocks is:", r"cache_config_info with initialization after num_gpu_blocks is: (\d+)")
def _blocks(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_blocks": integer(match[1])})
    yield phase("kv_allocated")


@rules.on("Profiling CUDA graph memory")
def _profiling(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("profiling", match[0])


@rules.on("Estimated CUDA graph memory", rf"Estimated CUDA graph memory: {_G} total")
def _graph_estimate(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("graph_pool", gib(match[1]), owner="estimate")


@rules.on("Capturing", r"Capturing (?:CUDA graphs?|cudagraphs for decoding|the model for CUDA graphs)")
@rules.on("Warming up", r"Warming up (?:FlashInfer|sampler|kernels|.{0,40}kernels)")
def _capturing(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("capturing", match[0])


@rules.on("Graph capturing finished", r"Graph capturing finished in (\d+) secs?, took (-?[\d.]+) GiB")
def _captured(match: re.Match[str], _: Record) -> Iterator[Fact]:
    amount = gib(match[2])
    if amount is not None:
        yield Fact("graph", {"bytes": amount.bytes, "resolution_bytes": amount.resolution})
        yield from memory("graph_pool", amount, owner="captured")


@rules.on("CUDA graph pool memory", rf"CUDA graph pool memory: {_G} \(actual\), {_G} \(estimated\)")
def _graph_pool(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("graph_pool", gib(match[1]), owner="actual")
    yield from memory("graph_pool", gib(match[2]), owner="estimate")


@rules.on("torch.compile took")
def _compiling(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("compiling", match[0])


@rules.on(
    "on startup. Desired",
    rf"Free memory on device (?:\S+ )?\(([\d.]+)/([\d.]+) GiB\) on startup\. Desired GPU memory utilization is \(([\d.]+), {_G}\)",
)
def _summary(match: re.Match[str], record: Record) -> Iterator[Fact]:
    free, total, budget = gib(match[1]), gib(match[2]), gib(match[4])
    if free is not None and total is not None and budget is not None:
        yield Fact(
            "device",
            {
                "free_bytes": free.bytes,
                "total_bytes": total.bytes,
                "budget_bytes": budget.bytes,
                "resolution_bytes": max(free.resolution, total.resolution),
            },
        )
    yield manifest("argument", "gpu_memory_utilization", match[3])
    for component, lifetime, owner, label in (
        ("weights", "worker", "steady", r"weight\b"),
        ("weights", "worker", "with_non_torch", r"consumed memory"),
        ("activation", "iteration", "peak", r"peak activation"),
        ("non_torch", "worker", "forward_increase", r"non-torch memory"),
        ("graph_pool", "worker", "actual", r"CUDAGraph memory"),
    ):
        found = re.search(rf"{_G} for {label}", record.text)
        if found is not None:
            yield from memory(component, gib(found[1]), lifetime=lifetime, owner=owner)
    in_use = re.search(rf"kv cache memory in use is {_G}", record.text)
    if in_use is not None:
        yield from memory("kv_pool", gib(in_use[1]), owner="in_use")


@rules.on("init engine (profile")
def _initialised(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("compiling", "init engine done")


@rules.on(
    "Avg prompt throughput", r"Avg prompt throughput: ([\d.]+) tokens/s, Avg generation throughput: ([\d.]+) tokens/s"
)
def _throughput(match: re.Match[str], record: Record) -> Iterator[Fact]:
    text = record.text
    fields: dict[str, object] = {
        "prompt_tokens_per_s": float(match[1]),
        "generation_tokens_per_s": float(match[2]),
    }
    for label, count in _COUNTS.findall(text):
        fields[_COUNTED[label]] = integer(count)
    yield Fact("throughput", fields)
    requests = fields.get("preempted_requests")
    if isinstance(requests, int) and requests:
        yield _preemption(record, requests)
    usage = re.search(r"KV cache usage: ([\d.]+)%", text)
    if usage is not None:
        digits = len(usage[1].partition(".")[2])
        yield Fact(
            "kv_pool",
            {
                "tier": "device",
                "usage_ratio": float(usage[1]) / 100,
                "usage_resolution_ratio": 0.5 / 100 / 10**digits,
            },
        )


@rules.on(
    "not enough KV cache space",
    r"Sequence group \S+ is preempted by (\S+) mode .*?(?:total_num_cumulative_preemption=(\d+))?\.?$",
)
def _preempted(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _preemption(record, 1)


def _preemption(record: Record, requests: int) -> Fact:
    fields = {"resource": "kv_blocks", "api": "engine", "error_type": "preemption", "requests": requests, "fatal": False}
    return Fact("oom", {**fields, "message": record.text[:1000]})


@rules.on(
    "Iteration(",
    r"Iteration\((\d+)\): (\d+) context requests, (\d+) context tokens, (\d+) generation requests, (\d+) generation tokens",
)
def _iteration(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """One step, where --enable-logging-iteration-details is on."""
    context, decode = integer(match[3]), integer(match[5])
    yield Fact(
        "step",
        {
            "step_id": integer(match[1]),
            "mode": "mixed" if context and decode else "prefill" if context else "decode",
            "prefill_tokens": context,
            "decode_tokens": decode,
            "running_requests": integer(match[2]) + integer(match[4]),
        },
    )


@rules.on("Sleep mode freed", rf"Sleep mode freed {_G} memory, {_G} memory is still in use")
@rules.on("to fall asleep", r"It took [\d.]+ seconds to fall asleep")
def _sleep(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("sleeping", match[0])


@rules.on("to wake up", r"It took [\d.]+ seconds to wake up")
def _wake(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("waking", match[0])


@rules.on("/sleep", r"\"(?:POST|GET) /sleep\b.*HTTP/")
def _slept(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("sleeping", match[0])


@rules.on("/wake_up", r"\"(?:POST|GET) /wake_up\b.*HTTP/")
def _woken(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("waking", match[0])


@rules.on("EngineCore encountered a fatal error")
@rules.on("EngineCore failed to start")
@rules.on("WorkerProc failed to start")
@rules.on("Engine core initialization failed")
def _dead(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield Fact("fault", {"code": "engine_dead", "detail": match[0], "fatal": True})
