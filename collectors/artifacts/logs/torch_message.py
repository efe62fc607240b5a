"""The framework's out-of-memory message, in the forms that PyTorch has printed since 1.0.

Source of the forms: c10/cuda/CUDACachingAllocator.cpp of the releases, its HIP, XPU, NPU and MPS relatives, and
CUDAMallocAsyncAllocator.cpp. Figures come out as printed; what "allocated in private pools" really is (free blocks cached
there, added to the allocated and subtracted from the unallocated figure) is corrected in queries/views, not here.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.units import Size, size

_N = r"([\d.,]+) ?(bytes|[KMGT]i?B)"

SIGNS = (
    "ut of memory", "exceed allowed memory", "OutOfMemory", "ErrorMemoryAllocation", "OUT_OF_MEMORY", "ALLOC_FAILED",
    "NVML_SUCCESS", "OUT_OF_DEVICE_MEMORY", "RESOURCE_EXHAUSTED", "requested buffer of size", "code is 207001",
    "PT_DEVMEM", "SYNHELPER", "EL0004", "rtMalloc", "alloc device memory", "resource allocation failed",
)  # fmt: skip


def looks_like(text: str) -> bool:
    """A cheap first look; parse() decides."""
    return any(map(text.__contains__, SIGNS))


_BACKEND = Pattern(r"\b(CUDA|HIP|XPU|NPU|MUSA|MPS|MLU|HPU)\b(?: backend)?(?: [Ee]rror:)?[ :]+out of memory")
_TRIED = Pattern(rf"(?:[Tt]ried|trying) to allocate {_N}")
_DEVICE = Pattern(r"\b(?:GPU|NPU|XPU|MLU|device) (\d+)\b")
_CAPACITY = Pattern(rf"total capaci?ty of {_N}|[(;] ?{_N} total capacity|Device limit\s*: {_N}|max allowed: {_N}")
_FREE = Pattern(rf"of which {_N} is free|[;,] {_N} free\b|Free \(according to CUDA\)\s*: {_N}")
_OWN = Pattern(rf"this process has {_N} memory in use")
_PROCESS = Pattern(rf"Process (\d+) has {_N} memory in use")
_ALLOCATED = Pattern(
    rf"[Oo]f the allocated memory {_N} is allocated|{_N} already allocated|Currently allocated\s*: {_N}"
    rf"|MPS allocated: {_N}"
)
_PRIVATE = Pattern(rf"with {_N} allocated in private pools")
_UNALLOCATED = Pattern(rf"and {_N} is reserved by PyTorch but unallocated|(?<=; ){_N} cached\b")
_RESERVED = Pattern(rf"{_N} reserved in total")
_ALLOWED = Pattern(rf"{_N} allowed\b")
_REQUESTED_ASYNC = Pattern(rf"Requested\s*: {_N}")

_RAW = Pattern(
    r"(?:CUDA|HIP|ROCm|MUSA|Triton)(?: driver| runtime)? [Ee]rror(?: \[\w+\])?(?: in [^\n]{0,400}?)?: out of memory"
    r"|cudaErrorMemoryAllocation|hipErrorOutOfMemory|CUDA_ERROR_OUT_OF_MEMORY"
    r"|(?:CUresult|cudaError\w*|hipError\w*) ?(?:error)?[ :=]+(?:result=)?2\b[ :(]*out of memory"
)
_LEVEL_ZERO = Pattern(r"\b(?:UR|ZE|PI)_(?:RESULT_)?ERROR_OUT_OF_DEVICE_MEMORY\b")
"""Intel's driver, under PyTorch's XPU builds."""
_HABANA = Pattern(
    r"MODULE:PT_DEVMEM\b[^\n]{0,80}?[Aa]llocation failed for size:*:? ?(\d+)?"
    r"|MODULE:SYNHELPER workspace [Aa]llocation of size:*:? ?:*(\d+) failed"
)
"""Gaudi's bridge, whose sizes are bytes."""
_XLA = Pattern(
    r"RESOURCE_EXHAUSTED: [^\n]{0,300}?\b(?:[Oo]ut of memory|(?:[Aa]llocat|[Rr]eserv)\w{1,5})\b"
    r"(?:[^\n]{0,120}?\b(?:allocate|allocating|reserve) ([\d.]{1,20}) ?([KMGT]i?B?|bytes)?\b)?"
)
_XLA_FREE = Pattern(r"[Tt]here (?:are|is) ([\d.]{1,20}) ?([KMGT]i?B?|bytes)? free")
"""XLA's runtime, under JAX and vLLM on TPUs. The same status stands for quotas and message sizes, which are no memory."""
_ARENA = Pattern(r"\b[Ff]ailed to allocate memory for requested buffer of size (\d{1,18})")
"""ONNX Runtime's."""
_ASCEND = Pattern(
    r"\bEL0004\b|\berror code is 207001\b|alloc device memory failed"
    r"|\b(?:acl)?rtMalloc(?:Physical)?\b[^\n]{0,200}?(?:207001|207018|fail)"
)
"""CANN's runtime, under torch_npu. 207001 is ACL_ERROR_RT_MEMORY_ALLOCATION."""
_LIBRARY = Pattern(r"\b(CUBLAS|CUDNN|CUSOLVER|CUSPARSE|HIPBLAS|ROCBLAS|NCCL)_?\w*?_?(?:STATUS_)?ALLOC_FAILED", re.I)
_CUBLAS_WORDS = Pattern(r"(?i)(?:cuda|cublas)[^\n]{0,200}\bresource allocation failed")
"""CUBLAS_STATUS_ALLOC_FAILED as cublasGetStatusString says it, in llama.cpp and TensorFlow, and in old PyTorch."""
_NVML_ASSERT = Pattern(r"NVML_SUCCESS == r INTERNAL ASSERT FAILED at .*CUDACachingAllocator")


@dataclass
class TorchMessage:
    """A parsed message.

    Attributes:
        api: torch, cuda, hip, cublas, nccl, nvml_assert, ...: who reported it.
        fields: Of the oom row, as printed; absent where not printed.
        device: Device index, where printed.
        processes: (pid, bytes) of each `Process N has` clause that is somebody else's.
        own_process: (pid, bytes) of the clause that is this process, where it is printed so.
    """

    api: str
    fields: dict[str, Any] = field(default_factory=dict)
    device: int | None = None
    processes: list[tuple[int, int]] = field(default_factory=list)
    own_process: tuple[int, int] | None = None


def parse(message: str) -> TorchMessage | None:
    """Read a message.

    Args:
        message: From an exception or a log line; may be cut off anywhere, may span lines.

    Returns:
        None where it is no out-of-memory message of the device.
    """
    if _NVML_ASSERT.search(message):
        # The allocator calls NVML only while it composes its out-of-memory message (pytorch#185240).
        return TorchMessage("nvml_assert")
    if "RESOURCE_EXHAUSTED" in message and (found := _driver(message)) is not None:
        return found
    tried = _TRIED.search(message)
    if tried is not None or "would exceed allowed memory" in message:
        return _caching_allocator(message, tried)
    library = _LIBRARY.search(message)
    if library is not None:
        return TorchMessage(library[1].lower())
    if _CUBLAS_WORDS.search(message):
        return TorchMessage("cublas")
    if _RAW.search(message):
        return TorchMessage("hip" if "hip" in message.lower() else "cuda")
    driver = _driver(message)
    if driver is not None:
        return driver
    backend = _BACKEND.search(message)
    if backend is not None:
        return TorchMessage("torch")
    return None


def _driver(message: str) -> TorchMessage | None:
    """What the drivers of other accelerators say."""
    if _LEVEL_ZERO.search(message):
        return TorchMessage("level_zero")
    habana = _HABANA.search(message)
    if habana is not None:
        amount = habana[1] or habana[2]
        return TorchMessage("synapse", {"requested_bytes": int(amount[:18])} if amount else {})
    xla = _XLA.search(message)
    if xla is not None:
        found = TorchMessage("xla")
        _set(found.fields, "requested_bytes", _scaled(xla[1], xla[2]))
        free = _XLA_FREE.search(message)
        _set(found.fields, "free_bytes", _scaled(free[1], free[2]) if free is not None else None)
        return found
    arena = _ARENA.search(message)
    if arena is not None:
        return TorchMessage("onnxruntime", {"requested_bytes": int(arena[1])})
    return TorchMessage("cann") if _ASCEND.search(message) else None


def _caching_allocator(message: str, tried: re.Match[str] | None) -> TorchMessage | None:
    if "emory" not in message and not _CAPACITY.search(message):
        return None
    if "can't allocate memory" in message or "DefaultCPUAllocator" in message:
        return None
    result = TorchMessage("cuda_malloc_async" if tried is None else "torch")
    fields = result.fields
    requested = _size(tried) or _size(_REQUESTED_ASYNC.search(message))
    free = _size(_FREE.search(message))
    _set(fields, "requested_bytes", requested)
    _set(fields, "total_bytes", _size(_CAPACITY.search(message)))
    _set(fields, "free_bytes", free)
    _set(fields, "own_process_bytes", _size(_OWN.search(message)))
    _set(fields, "allocated_bytes", _size(_ALLOCATED.search(message)))
    _set(fields, "reserved_bytes", _size(_RESERVED.search(message)))
    _set(fields, "reserved_unallocated_bytes", _size(_UNALLOCATED.search(message)))
    _set(fields, "private_pool_bytes", _size(_PRIVATE.search(message)))
    _set(fields, "limit_bytes", _size(_ALLOWED.search(message)))
    known = [value.resolution for value in (requested, free) if value is not None]
    if known:
        fields["resolution_bytes"] = max(known)
    device = _DEVICE.search(message)
    if device is not None:
        result.device = int(device[1][:6])
    result.processes = [
        (int(match[1][:12]), amount.bytes)
        for match in _PROCESS.finditer(message)
        if (amount := size(match[2], match[3])) is not None
    ]
    _attribute(result)
    return result


def _attribute(result: TorchMessage) -> None:
    """Tell the own process from the others.

    Inside a container the driver's pids are not ours and no clause says `this process`: the own one is then the smallest
    that is at least what the framework has reserved.
    """
    fields = result.fields
    if not result.processes:
        return
    if "own_process_bytes" not in fields:
        parts = [fields.get("allocated_bytes"), fields.get("reserved_unallocated_bytes")]
        reserved = sum(part for part in parts if part is not None)
        # Both figures are rounded for print, so the own process may look a little smaller than what it holds.
        candidates = [entry for entry in result.processes if entry[1] * 100 >= reserved * 99]
        if candidates and parts[0] is not None:
            own = min(candidates, key=lambda entry: entry[1])
            fields["own_process_bytes"] = own[1]
            result.own_process = own
            result.processes.remove(own)
    if result.processes:
        fields["other_processes_bytes"] = sum(amount for _, amount in result.processes)


def _size(match: re.Match[str] | None) -> Size | None:
    if match is None:
        return None
    groups = [group for group in match.groups() if group is not None]
    return size(groups[0], groups[1], binary=True) if len(groups) >= 2 else None


def _scaled(number: str | None, unit: str | None) -> Size | None:
    """XLA's sizes: 1.13G is in powers of 1024."""
    if number is None:
        return None
    return size(number, "B" if unit in (None, "bytes") else f"{unit[0]}iB")


def _set(fields: dict[str, Any], name: str, value: Size | None) -> None:
    if value is not None:
        fields[name] = value.bytes
