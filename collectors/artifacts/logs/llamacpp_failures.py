"""llama.cpp's failures, of every backend: buffers that could not be had, a KV cache without cells, requests turned down.

A backend first says that an allocation failed, in its own words; then its callers say what it was for, each with the size.

Source of the formats: ggml/src/ggml-{cuda,vulkan,sycl,metal}*, ggml-alloc.c, ggml-backend.cpp, src/llama*.cpp,
tools/server.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import Size, size

rules = Rules()


def _oom(record: Record, error_type: str, api: str, amount: Size | None = None, resource: str = "device") -> Fact:
    fields: dict[str, object] = {
        "resource": resource, "api": api, "error_type": error_type, "message": record.text[:1000],
    }  # fmt: skip
    if amount is not None:
        fields |= {"requested_bytes": amount.bytes, "resolution_bytes": amount.resolution}
    return Fact("oom", fields)


@rules.on(
    "alloc failed: out of memory",
    r"allocating ([\d.]+) MiB on device (\d+): (cuda|hip|musa)Malloc\w* failed: out of memory",
)
def _malloc(match: re.Match[str], record: Record) -> Iterator[Fact]:
    fact = _oom(record, f"{match[3]}Malloc", match[3], size(match[1], "MiB"))
    fact.common["device_id"] = integer(match[2])
    yield fact


@rules.on("Device memory allocation of size", r"Device memory allocation of size (\d+) failed")
@rules.on("OutOfDeviceMemory", r"ErrorOutOfDeviceMemory()|VK_ERROR_OUT_OF_DEVICE_MEMORY()")
@rules.on("exceeds device memory allocation limit", r"exceeds device memory allocation limit()")
def _vulkan(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _oom(record, "allocateMemory", "vulkan", Size(integer(match[1]), 0) if match[1] else None)


@rules.on("on device", r"sycl\w*: can't (?:m?alloc|allocate) (\d+) Bytes (?:of )?memory on device")
def _sycl(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _oom(record, "malloc_device", "sycl", Size(integer(match[1]), 0))


@rules.on("OUT_OF_DEVICE_MEMORY", r"Native API (?:failed|returns).*OUT_OF_DEVICE_MEMORY")
def _level_zero(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _oom(record, "native_api", "level_zero")


@rules.on("Insufficient Memory", r"Insufficient Memory \(\w+:kIOGPUCommandBuffer\w*OutOfMemory\)")
@rules.on("metal", r"ggml_(?:backend_)?metal\w*: error: failed to allocate buffer, size = +([\d.]+) MiB")
def _metal(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _oom(record, "command_buffer", "metal", size(match[1], "MiB") if match.re.groups else None)


@rules.on("failed to allocate", r"failed to allocate (\w+ )?buffer of size (\d+)")
def _buffer(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """The caller's word. ggml's graph allocator asks for compute buffers, its tensor allocator for weights or KV."""
    host = (match[1] or "").upper().startswith("CPU") or "_cpu_" in record.text
    told = "compute_buffer" if "gallocr" in record.text else "buffer"
    yield _oom(record, told, "engine", Size(integer(match[2]), 0), "host" if host else "device")


@rules.on("unable to allocate", r"error loading model: unable to allocate (\w+) buffer")
def _weights(match: re.Match[str], record: Record) -> Iterator[Fact]:
    host = match[1].upper().startswith("CPU")
    yield _oom(record, "weights_buffer", "engine", None, "host" if host else "device")


@rules.on("kv cache", r"failed to (?:allocate buffer for|initialize|create|allocate) (?:the )?kv cache")
@rules.on("kv_cache", r"kv_cache\w*(?:: | )?(?:failed to allocate buffer|init\w*: failed)")
def _kv(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _oom(record, "kv_buffer", "engine")


@rules.on("compute", r"failed to (?:allocate|reserve|create) (?:initial |graph )?compute (?:\w+ )?buffers?")
def _compute(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _oom(record, "compute_buffer", "engine")


def _no_cells(record: Record, batch: str | None, fatal: bool | None) -> Fact:
    fields: dict[str, object] = {
        "resource": "kv_blocks", "api": "engine", "error_type": "no_kv_cells", "message": record.text[:1000],
    }  # fmt: skip
    if fatal is not None:
        fields["fatal"] = fatal
    if batch is not None:
        fields["requested_tokens"] = integer(batch)
    return Fact("oom", fields)


@rules.on("free space in the KV cache", r"failed to find free space in the KV cache, retrying.*?n_batch[ =:]+(\d+)")
@rules.on("memory slot for batch", r"failed to find a memory slot for batch of size (\d+)")
def _retrying(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """The server tries a smaller batch."""
    yield _no_cells(record, match[1] or None, fatal=False)


@rules.on("failed to decode the batch", r"failed to decode the batch.*?n_batch = (\d+)")
@rules.on("could not find a", r"could not find a (?:KV|kv) ?(?:cache )?slot()")
@rules.on("KV cache is full", r"KV cache is full(?:.*?n_batch = (\d+))?")
@rules.on("Context size has been exceeded", r"Context size has been exceeded()")
def _not_decoded(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _no_cells(record, match[1] or None, fatal=None)


@rules.on("context shift", r"\bcontext shift, n_keep = \d+, n_left = \d+, n_discard = (\d+)")
@rules.on("context limit hit - shifting", r"context limit hit - shifting.*?\bdiscard=(\d+)")
def _shift(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """A sequence has filled its part of the cache; half of it is given up, and it goes on."""
    fields = {"resource": "kv_blocks", "api": "engine", "error_type": "context_shift", "requests": 1, "fatal": False}
    yield Fact("oom", {**fields, "requested_tokens": integer(match[1]), "message": record.text[:1000]})


@rules.on(
    "the available context size",
    r"request (?:\((\d+) tokens\) )?exceeds the available context size(?: \((\d+) tokens\))?",
)
def _too_long(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """One request is turned down; the server goes on."""
    fields: dict[str, object] = {"gate": "admission", "resource": "kv_blocks", "message": record.text[:1000]}
    for field, printed in (("needed_tokens", match[1]), ("available_tokens", match[2])):
        if printed is not None:
            fields[field] = integer(printed)
    yield Fact("refusal", fields)


@rules.on("failed to load model", r"(?:load_model|from_file\w*|from_params|load_model_from_file): failed to load model")
def _not_loaded(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("fault", {"code": "engine_dead", "detail": match[0], "fatal": True})


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """llama.cpp throws nothing that is not CUDA's own."""
    return None
