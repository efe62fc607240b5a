"""Which processes are a worker's, and whether they live: by /proc, across pid namespaces."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from oomctl.collectors.agent.process import boot_id, start_ticks, stat

PROC = Path("/proc")
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h: here process ids are those that the driver means."""
RING_VARIABLE, WORKER_VARIABLE = b"OOMCTL_RING=", b"OOMCTL_WORKER="


def incarnation_of(pid: int, proc: Path = PROC) -> str:
    """What a life of a process is called where its agent does not say: boot id, pid, start."""
    return f"{boot_id(proc)}:{pid}:{start_ticks(pid, proc)}"


def local_pid(pid: int, ticks: int, proc: Path = PROC) -> int | None:
    """The process that calls itself `pid`, perhaps in a namespace of its own, and started at `ticks`; None: not here."""
    if ticks and start_ticks(pid, proc) == ticks:
        return pid
    for candidate in _pids(proc):
        if start_ticks(candidate, proc) == ticks and _own_pid(candidate, proc) == pid:
            return candidate
    return None


def tree(pid: int, proc: Path = PROC) -> list[int]:
    """A process and all its descendants."""
    return descendants(pid, {candidate: _parent(candidate, proc) for candidate in _pids(proc)})


def descendants(root: int, parents: Mapping[int, int | None]) -> list[int]:
    """A process and all that come of it, each behind its parent.

    Args:
        root: The process.
        parents: Of every process.
    """
    children: dict[int | None, list[int]] = {}
    for pid, parent in sorted(parents.items()):
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += [child for child in children.get(pid, ()) if child not in found]
    return found


def sees_all(proc: Path = PROC) -> bool:
    """Whether every process of the host is to be seen from here, and by the pid that the host gives it."""
    try:
        return str((proc / "self/ns/pid").readlink()) == INITIAL_PID_NAMESPACE
    except OSError:
        return False


def ring_folder(pid: int, proc: Path = PROC) -> Path | None:
    """The folder that OOMCTL_RING named when the process started, as seen from here; None where it did not."""
    told = _variable(pid, RING_VARIABLE, proc)
    if told is None:
        return None
    named = Path(told)
    if named.is_dir():
        return named
    inside = proc / str(pid) / "root" / named.relative_to(named.anchor)
    return inside if inside.is_dir() else named


def worker_named(pid: int, proc: Path = PROC) -> str | None:
    """What OOMCTL_WORKER named the worker when the process started, as its agent will; None where it did not."""
    return _variable(pid, WORKER_VARIABLE, proc) or None


def _variable(pid: int, name: bytes, proc: Path) -> str | None:
    """A variable of a process's environment, as it was when the process started."""
    try:
        variables = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    told = next((variable for variable in variables if variable.startswith(name)), None)
    return None if told is None else told.removeprefix(name).decode("utf-8", "surrogateescape")


def _pids(proc: Path) -> Iterator[int]:
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            yield int(entry.name)


def _parent(pid: int, proc: Path) -> int | None:
    try:
        return int(stat(pid, proc)[1])
    except (OSError, ValueError, IndexError):
        return None


def _own_pid(pid: int, proc: Path) -> int | None:
    """What a process sees as its own pid: the last of NSpid."""
    try:
        for line in (proc / str(pid) / "status").read_bytes().splitlines():
            if line.startswith(b"NSpid:"):
                return int(line.split()[-1])
    except (OSError, ValueError, IndexError):
        pass
    return None
