"""What vLLM prints of memory: components, budget, KV pool, graphs.

Source: vllm/worker/worker.py, v1/worker/gpu_worker.py, gpu_model_runner.py, v1/core/kv_cache_utils.py of the releases.
V0 prints "GB" and divides by 2**30.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, gib, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.record import Record

rules = Rules()

_G = r"(-?[\d.]+) ?GiB"


@rules.on("oading", r"(?:Model loading took|Loading model weights took)(?: in total)? ([\d.]+) (?:GiB|GB)")
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


@rules.on("device memory:", r"Free device memory: ([\d.]+) GiB, ([\d.]+) GiB usable .*?([\d.]+) GiB reserved for KV cache")
def _gaudi(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The Gaudi fork's budget."""
    free = gib(match[1])
    if free is not None:
        yield Fact("device", {"free_bytes": free.bytes, "resolution_bytes": free.resolution})
    yield from memory("kv_pool", gib(match[3]), owner="available")
    yield phase("profiling")


@rules.on("Estimated CUDA graph memory", rf"Estimated CUDA graph memory: {_G} total")
def _graph_estimate(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("graph_pool", gib(match[1]), owner="estimate")


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


@rules.on(
    "on startup. Desired",
    r"Free memory on device (?:\S+ )?\(([\d.]+)/([\d.]+) GiB\) on startup\. "
    rf"Desired GPU memory utilization is \(([\d.]+), {_G}\)",
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
