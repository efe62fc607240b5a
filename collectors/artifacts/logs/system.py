"""Failures that the system reports, whatever engine runs on it: kills, the kernel's word, host allocations that failed."""

import re
from typing import Any

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.units import size

KIB = 1024

_SIGNS = (
    "illed", "oom", "OOM", "137", "-9", "SIGKILL", "emory", "ENOMEM", "bad_alloc", "estart", "aligned_alloc", "iB",
    "died unexp", "eft-over",
)  # fmt: skip


def looks_like(text: str) -> bool:
    """A cheap first look; the patterns below decide."""
    return any(map(text.__contains__, _SIGNS))


_BARE_KILLED = Pattern(r"^(?:\S+: line \d+:\s+\d+ Killed\b.*|(?:zsh: |\[\d+\][+-]?\s+(?:\d+ )?)?[Kk]illed(?:\s{2,}\S.*)?)$")
"""A shell's word, alone or before the command, set off from it by more than one space."""
_KERNEL_KILL = Pattern(
    r"(?P<cgroup>Memory cgroup out of memory|Out of memory)(?: \(\w+\))?: Kill(?:ed)? process "
    r"(?P<pid>\d{1,10}) \((?P<name>[^)]{1,64})\)"
)
_RSS = Pattern(r"(anon-rss|file-rss|shmem-rss):(\d{1,15})kB")
_OOM_KILLED = Pattern(r"\bOOMKilled\b|\bReason:\s+OOMKilled|reason[\"']?[:=]\s*[\"']?OOMKilled")
_EXIT_137 = Pattern(
    r"\b(?:exit(?:ed)?(?: with)?(?: code| status)?|exitCode|status|returned)[\"']?[ :=(]+137\b", re.IGNORECASE
)
_SIGNAL_9 = Pattern(
    r"exit ?code:? ?-9\b|code=killed, status=9|killed by signal 9|signal: killed|signal 9\b|\bSIGKILL\b"
    r"|terminated by signal 9"
)
_DIED = Pattern(r"(?:Worker proc|Engine core proc|Process) (\S{1,80}) died unexpectedly(?: \(exit code: (-?\d+|None)\))?")
_SYSTEMD_OOM = Pattern(r"systemd.*(?:killed by the OOM killer|oom-kill|result 'oom-kill')")
_RESTART = Pattern(
    r"Scheduled restart job, restart counter is at (\d+)|Back-off restarting failed container|Found left-over process"
)
_GPU_PROCESS = Pattern(r"^\s*(\d{2,10}),\s*([\d.]+) (GiB|MiB),\s*([A-Za-z/\[].{0,120})$")
_GPU_TABLE = Pattern(r"^\|\s+\d+\s+\S+\s+\S+\s+(\d+)\s+[CGM+]+\s+(\S.*?)\s+(\d+)MiB\s+\|$")

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
    (Pattern(r"insufficient shared memory \(shm\)|unable to allocate shared memory\(shm\)"), "shm"),
    (Pattern(r"aligned_alloc failed for size (\d+)"), "malloc"),
    (
        Pattern(
            r"killed due to the node running low on memory"
            r"|memory on the node .{0,200}exceeds the memory usage threshold"
        ),
        "ray",
    ),
    (Pattern(r"Unable to allocate [\d.]+ [KMGT]iB for an array|^Cannot allocate memory"), "numpy"),
)  # fmt: skip


def host_failure(error_type: str, message: str) -> dict[str, Any] | None:
    """The oom fields of a host allocation that failed.

    Args:
        error_type: Exception type as printed, or "" for a bare line.
        message: Its message.

    Returns:
        None where the exception is no lack of host memory.
    """
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


def facts(text: str) -> list[Fact]:
    """What a line that is no part of a traceback says of kills, restarts and device memory held by processes.

    Args:
        text: Without its outer prefix.
    """
    stripped = text.strip()
    kernel = _KERNEL_KILL.search(stripped)
    if kernel is not None:
        return _kernel_kill(kernel, stripped)
    if _OOM_KILLED.search(stripped) or _SYSTEMD_OOM.search(stripped):
        return [
            Fact(
                "oom",
                {"resource": "host", "api": "supervisor", "error_type": "oom_kill", "message": stripped, "fatal": True},
            ),
        ]
    died = _DIED.search(stripped)
    if died is not None:
        return _died(died, stripped)
    if _BARE_KILLED.match(stripped) or _EXIT_137.search(stripped) or _SIGNAL_9.search(stripped):
        return [Fact("lifecycle", {"phase": "killed", "signal": 9, "detail": stripped[:500]})]
    restart = _RESTART.search(stripped)
    if restart is not None:
        return [Fact("lifecycle", {"phase": "stopped", "detail": f"restart: {stripped[:480]}"})]
    return _gpu_process(stripped)


def _kernel_kill(match: re.Match[str], text: str) -> list[Fact]:
    rss = sum(int(amount) for _, amount in _RSS.pairs(text)) * KIB
    found = [
        Fact(
            "oom",
            {
                "resource": "host",
                "api": "kernel_cgroup" if "cgroup" in match["cgroup"] else "kernel",
                "error_type": "oom_kill",
                "message": text,
                "own_process_bytes": rss or None,
                "fatal": True,
            },
        ),
    ]
    if rss:
        found.append(Fact("host", {"rss_bytes": rss}))
    return found


def _died(match: re.Match[str], text: str) -> list[Fact]:
    """vLLM prints `exit code: None` where it noticed the death before the status, and -9 for SIGKILL."""
    code = match[2]
    if code in (None, "None"):
        return [Fact("lifecycle", {"phase": "killed", "detail": text[:500]})]
    number = int(code)
    if number == -9:
        return [Fact("lifecycle", {"phase": "killed", "signal": 9, "exit_code": -9, "detail": text[:500]})]
    return [Fact("lifecycle", {"phase": "stopped", "exit_code": number, "detail": text[:500]})]


def _gpu_process(text: str) -> list[Fact]:
    """A row of nvidia-smi's process table, or of its --query-compute-apps."""
    row = _GPU_PROCESS.match(text)
    used = size(row[2], row[3]) if row is not None else None
    if row is not None and used is not None:
        fields = {"pid": int(row[1]), "name": row[4], "used_bytes": used.bytes, "resolution_bytes": used.resolution}
        return [Fact("process", fields)]
    row = _GPU_TABLE.match(text)
    if row is not None:
        fields = {"pid": int(row[1]), "name": row[2], "used_bytes": int(row[3]) * 2**20, "resolution_bytes": 2**19}
        return [Fact("process", fields)]
    return []
