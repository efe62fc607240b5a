"""Allocations of host memory that failed, as the C library, PyTorch's CPU allocator, NumPy, Ray and others report them."""

import re
from typing import Any

from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system import ray

_HOST_ERRORS: tuple[tuple[Pattern, str], ...] = (
    (
        Pattern(
            r"DefaultCPUAllocator: (?:can't|not enough) (?:allocate )?memory:? ?(?:you tried to allocate (\d+) bytes)?"
        ),
        "cpu_allocator",
    ),
    (Pattern(r"unable to mmap (\d+) bytes|mmap(?:ing)?(?: \S+)? failed|failed to mmap", re.I), "mmap"),
    (Pattern(r"\[Errno 12\]|Error code 12\b|errno[ =:]+12\b|\bENOMEM\b|Cannot allocate memory"), "errno"),
    (Pattern(r"std::bad_alloc"), "malloc"),
    (
        Pattern(
            r"insufficient shared memory \(shm\)|unable to allocate shared memory\(shm\)"
            r"|[Uu]nable to initialize shared memory key [^\n]{1,200}? to requested size \((\d+) bytes\)"
            r"|[Ff]ailed to increase the shared memory pool size (?:for key [^\n]{1,200}? )?to (\d+) bytes"
            r"|No space left on device[^\n]{0,20}: ['\"]?/?(?:dev/shm|psm_|torch_|nccl-)"
            r"|unable to write to file </torch_\w+>: No space left on device"
        ),
        "shm",
    ),
    (Pattern(r"[Pp]aging file is too small|(?:WinError|os error) 1455\b"), "commit_limit"),
    (Pattern(r"aligned_alloc failed for size (\d+)"), "malloc"),
    (Pattern(r"Unable to allocate [\d.]+ [KMGT]iB for an array|^Cannot allocate memory"), "numpy"),
)  # fmt: skip


def host_failure(error_type: str, message: str) -> dict[str, Any] | None:
    """The oom fields of a host allocation that failed, or of a kill that an exception reports.

    Args:
        error_type: Exception type as printed, or "" for a bare line.
        message: Its message.

    Returns:
        None where the exception is no lack of host memory.
    """
    killed = ray.kill(message)
    if killed is not None:
        return killed
    head = message[:4000]
    for pattern, api in _HOST_ERRORS:
        match = pattern.search(head)
        if match is not None:
            fields: dict[str, Any] = {"resource": "host", "api": api, "error_type": error_type or None}
            amount = next((group for group in match.groups() if group), None)
            if amount is not None and len(amount) < 19:
                fields["requested_bytes"] = int(amount)
            return fields
    if error_type.rpartition(".")[2] == "MemoryError":
        return {"resource": "host", "api": "python", "error_type": error_type}
    return None
