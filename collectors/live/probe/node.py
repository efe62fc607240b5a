"""The node's own sources: devices, cgroups, kernel log, room for rings."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oomctl.collectors.live.host.kernel_log import KernelLog
from oomctl.collectors.live.probe.finding import Finding

RING_BYTES = 64 << 20
"""Room for the rings of one engine: 8 MiB for each writing thread (collectors/agent/ring.py)."""


def node(root: Path, api: Any) -> Iterator[Finding]:
    """Probe the node.

    Args:
        root: Of the file system.
        api: pynvml, or what stands in for it; None where it cannot be imported.
    """
    yield _devices(api)
    yield _cgroup(root)
    yield _kernel_log(root)
    yield _shared_memory(root / "dev/shm")


def _devices(api: Any) -> Finding:
    if api is None:
        return Finding("devices", "missing", "no nvidia-ml-py", "pip install nvidia-ml-py")
    try:
        api.nvmlInit()
        handles = [api.nvmlDeviceGetHandleByIndex(index) for index in range(api.nvmlDeviceGetCount())]
    except api.NVMLError as error:
        needs = "on NVIDIA's devices, a driver; in a container, the runtime that hands its library in"
        return Finding("devices", "missing", f"NVML: {error}", needs)
    without = []
    for handle in handles:
        try:
            if api.nvmlDeviceGetAccountingMode(handle) != 1:
                without.append("off")
        except api.NVMLError as error:
            without.append(str(error))
    found = f"{len(handles)} devices"
    if without:
        needs = "nvidia-smi --accounting-mode=1 (root): the peak of a process that died"
        return Finding("devices", "partly", f"{found}; accounting: {without[0]} on {len(without)}", needs)
    return Finding("devices", "there", f"{found}, with accounting")


def _cgroup(root: Path) -> Finding:
    if (root / "sys/fs/cgroup/cgroup.controllers").exists():
        own = _own_group(root)
        events = (root / "sys/fs/cgroup" / own.lstrip("/") / "memory.events") if own else None
        if events is not None and events.exists():
            return Finding("cgroup", "there", f"version 2, {own}")
        return Finding("cgroup", "partly", "version 2, without memory.events", "the memory controller in this cgroup")
    if (root / "sys/fs/cgroup/memory").is_dir():
        return Finding("cgroup", "partly", "version 1: no pressure, kills only by memory.oom_control", "cgroup version 2")
    return Finding("cgroup", "missing", "no /sys/fs/cgroup", "mount it; in a container, read-only is enough")


def _own_group(root: Path) -> str | None:
    try:
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return line[3:]
    except OSError:
        pass
    return None


def _kernel_log(root: Path) -> Finding:
    log = KernelLog(root)
    log.close()
    if log.absent is None:
        return Finding("kernel log", "there", log.name)
    needs = "CAP_SYSLOG, or kernel.dmesg_restrict=0, or the group systemd-journal; else a kill is seen without its reason"
    return Finding("kernel log", "missing", log.absent, needs)


def _shared_memory(folder: Path) -> Finding:
    try:
        told = os.statvfs(folder)
    except OSError as error:
        return Finding("room for rings", "missing", f"/dev/shm: {error.strerror}", "another folder for OOMCTL_RING")
    free = told.f_bavail * told.f_frsize
    if free < RING_BYTES:
        return Finding(
            "room for rings", "partly", f"/dev/shm: {free} bytes free", "--shm-size, or another folder for OOMCTL_RING"
        )
    return Finding("room for rings", "there", f"/dev/shm: {free >> 20} MiB free; its pages count for the worker's cgroup")
