"""Memory figures as this process can read them: the host's from /proc, the device's from a torch that is loaded anyway."""

import os
import resource
import sys
from pathlib import Path
from typing import Any

from oomctl.collectors.agent.kinds import ALLOCATOR, DEVICE, HOST
from oomctl.collectors.agent.layout import NULL_I64
from oomctl.collectors.agent.ring import Ring

_STATS = (
    "allocated_bytes.all.current", "reserved_bytes.all.current", "active_bytes.all.current", "requested_bytes.all.current",
    "inactive_split_bytes.all.current",
)  # fmt: skip
_PEAKS = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms")
PRIVATE_POOLS = "reserved_bytes_by_private_pools"


def write_all(ring: Ring) -> None:
    """Allocator, device and host, each as far as it can be read."""
    write_host(ring)
    cuda = ready_cuda()
    if cuda is not None:
        write_allocator(ring, cuda)
        write_device(ring, cuda)


def ready_cuda() -> Any:
    """torch.cuda where the engine has initialised it; never imports or initialises anything itself."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


def write_allocator(ring: Ring, cuda: Any) -> None:
    """The caching allocator's counters; what this version of torch does not count is NULL."""
    stats = cuda.memory_stats()
    pools = stats.get(PRIVATE_POOLS)
    private = sum(pools.values()) if isinstance(pools, dict) else NULL_I64
    first = [stats.get(name, NULL_I64) for name in _STATS]
    last = [stats.get(name, NULL_I64) for name in _PEAKS]
    ring.write(ALLOCATOR, b"", *first, NULL_I64, private, *last)


def write_device(ring: Ring, cuda: Any, budget_bytes: int = NULL_I64) -> None:
    """The device as its driver sees it."""
    free, total = cuda.mem_get_info()
    ring.write(DEVICE, b"", total, total - free, free, budget_bytes)


def write_host(ring: Ring, proc: Path = Path("/proc")) -> None:
    """This process's resident, shared and swapped bytes."""
    found = _status(proc / "self" / "status", ("VmRSS", "RssShmem", "VmSwap"))
    ring.write(HOST, b"", *(NULL_I64 if value is None else value for value in found))


def allocated_bytes() -> int:
    """What the caching allocator holds for tensors; NULL without a device."""
    cuda = ready_cuda()
    return NULL_I64 if cuda is None else int(cuda.memory_allocated())


def used_bytes() -> int:
    """What is in use on the device, by anybody; NULL without one."""
    cuda = ready_cuda()
    if cuda is None:
        return NULL_I64
    free, total = cuda.mem_get_info()
    return int(total - free)


def address_space_left(proc: Path = Path("/proc")) -> int | None:
    """Bytes that RLIMIT_AS leaves this process; None where it is not limited or not known."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    (size,) = _status(proc / "self" / "status", ("VmSize",))
    return None if limit == resource.RLIM_INFINITY or size is None else limit - size


def _status(path: Path, names: tuple[str, ...]) -> list[int | None]:
    found: dict[str, int] = {}
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            text = os.read(descriptor, 8192).decode("ascii", "replace")
        finally:
            os.close(descriptor)
        for line in text.splitlines():
            name, _, value = line.partition(":")
            if name in names:
                found[name] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return [found.get(name) for name in names]
