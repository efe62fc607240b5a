"""What TensorRT-LLM prints of memory: [MemUsageChange], the KV cache manager, the table of components.

Source of the formats: cpp/tensorrt_llm/runtime/tllmRuntime.cpp, batch_manager/kvCacheManager.cpp and
tensorrt_llm/_torch/pyexecutor/py_executor_creator.py, which prints the table. "Use .. GB for model weights" divides by
2**30.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, gib, integer, memory, phase
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import Size, size

rules = Rules()

_COMPONENTS = {
    "execution context memory": ("activation", "iteration"),
    "runtime buffers": ("workspace", "worker"),
    "decoder": ("workspace", "worker"),
}
_TABLE_HEAD = r"^(Total|Free) GPU memory (?:\(GiB\)|before component creation attempt \(GiB\)): ([\d.]+)"
_TABLE_ROW = r"^(%s)(?: \([^)]*\))?: ([\d.]+) / ([\d.]+)$"
_TABLE_NAMES = (
    "Model", "Draft model", "Sampler", "Drafter", "Guided decoder", "KV cache", "Initial KV cache",
    "Additional executor resources", "Extra resource managers", "Model resources created during usage",
)  # fmt: skip


@rules.on("Loaded engine size", r"Loaded engine size: ([\d.]+) (MiB|GiB)")
def _engine_read(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """Printed when the engine's file has been read, before its weights are on the device."""
    yield from memory("weights", size(match[1], match[2], binary=True), owner="steady")
    yield phase("loading", match[0])


@rules.on(
    "TensorRT-managed allocation", r"TensorRT-managed allocation in (?:engine deserialization|IExecutionContext creation)"
)
def _deserialized(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("weights_loaded", match[0])


@rules.on("for model weights", r"Use ([\d.]+) (GB|GiB) for model weights")
def _weights(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("weights", size(match[1], match[2], binary=True), owner="steady")
    yield phase("weights_loaded")


@rules.on(
    "[MemUsageChange] Allocated",
    r"Allocated ([\d.]+) (GiB|MiB|GB|MB|KB)(?: GPU memory)? for (?:max tokens in paged KV cache \((\d+)\)|([\w ]+))",
)
def _allocated(match: re.Match[str], _: Record) -> Iterator[Fact]:
    amount = size(match[1], match[2], binary=True)
    if match[3] is not None:
        yield from memory("kv_pool", amount, owner="in_use")
        yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[3])})
        yield phase("kv_allocated")
        return
    component, lifetime = _COMPONENTS.get(match[4].strip(" ."), ("other", "worker"))
    yield from memory(component, amount, lifetime=lifetime, owner=match[4].strip(" .")[:60])
    yield phase("weights_loaded")


@rules.on("tokens in paged KV cache:", r"[Mm]ax tokens in paged KV cache: (\d+)\. Allocating (\d+) bytes")
def _allocating(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """Before 0.10 the size was printed before the pool was there."""
    yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[1])})
    yield from memory("kv_pool", Size(integer(match[2]), 0), owner="in_use")
    yield phase("profiling", match[0])


@rules.on("max tokens in paged kv cache", r"total: ([\d.]+) GiB, available: ([\d.]+) GiB")
def _available(match: re.Match[str], _: Record) -> Iterator[Fact]:
    total, free = gib(match[1]), gib(match[2])
    if total is not None and free is not None:
        yield Fact("device", {"total_bytes": total.bytes, "free_bytes": free.bytes, "resolution_bytes": free.resolution})
    yield phase("profiling")


@rules.on("Peak memory during memory usage profiling", r"\(torch \+ non-torch\): ([\d.]+) GiB, available KV cache memory "
    r".{0,80}?: ([\d.]+) GiB")  # fmt: skip
def _profiled(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The PyTorch backend's estimate of its KV cache."""
    yield from memory("kv_pool", gib(match[2]), owner="available")
    yield phase("profiling")


@rules.on("KV cache primary pool", r"Number of blocks in KV cache primary pool: (\d+)")
@rules.on("primary blocks=", r"primary blocks=(\d+)")
def _blocks(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_blocks": integer(match[1])})


@rules.on("tokens per block", r"Number of tokens per block: (\d+)")
def _block_size(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "block_size_tokens": integer(match[1])})


@rules.on("tokens in paged KV cache", r"Using (\d+) tokens in paged KV cache")
def _tokens(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[1])})
    yield phase("kv_allocated")


@rules.on("max_tokens_in_buffer, allocating", r"request (\d+) needs (\d+) tokens > max_tokens_in_buffer")
def _transfer(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("transfer", {"op": "receive", "peer": f"request {match[1]}", "tokens": integer(match[2])})


@rules.on("component could not be created", r"following component could not be created: ([\w ]{1,60})")
def _not_created(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """Which component of the table failed; the table's other rows were created before."""
    component = match[1].strip()
    told = {"Model": "component_model", "Draft model": "component_model", "KV cache": "component_kv_cache"}
    error_type = told.get(component, "component_kv_cache" if "KV cache" in component else "component_resources")
    yield Fact("oom", {"resource": "device", "api": "engine", "error_type": error_type, "message": match[0], "fatal": True})


@rules.on("creation attempt (GiB): ", _TABLE_HEAD)
@rules.on("Total GPU memory (GiB): ", _TABLE_HEAD)
def _table_head(match: re.Match[str], _: Record) -> Iterator[Fact]:
    amount = gib(match[2])
    if amount is not None:
        field = "total_bytes" if match[1] == "Total" else "free_bytes"
        yield Fact("device", {field: amount.bytes, "resolution_bytes": amount.resolution})


def _table_row(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """A component of the table: free before and after its creation; the difference is what it took."""
    before, after = gib(match[2]), gib(match[3])
    if before is None or after is None:
        return
    component = {"Model": "weights", "KV cache": "kv_pool", "Initial KV cache": "kv_pool"}.get(match[1], "workspace")
    owner = "steady" if match[1] == "Model" else "in_use" if match[1] == "KV cache" else match[1]
    yield Fact(
        "memory",
        {
            "component": component,
            "lifetime": "worker",
            "owner": owner,
            "bytes": before.bytes - after.bytes,
            "resolution_bytes": before.resolution * 2,
        },
        {"quality": "derived"},
    )


for _name in _TABLE_NAMES:
    rules.on(f"{_name}: ", _TABLE_ROW % _name)(_table_row)
    rules.on(f"{_name} (", _TABLE_ROW % _name)(_table_row)
