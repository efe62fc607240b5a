"""What /proc says of a process, as far as rings need it."""

from pathlib import Path


def boot_id(proc: Path = Path("/proc")) -> str:
    """The kernel's name for this boot; empty where it tells none."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def stat(pid: int | str = "self", proc: Path = Path("/proc")) -> list[bytes]:
    """The fields of a process's stat from the third on, its state (proc(5)).

    Raises:
        OSError: If it is not there, or may not be read.
    """
    # The name, in brackets, may hold anything; the rest stands behind the last bracket.
    return (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()


def start_ticks(pid: int | str = "self", proc: Path = Path("/proc")) -> int:
    """When a process started, in clock ticks since boot; 0 where it is not there, or is dead and waits for its parent.

    Tells a process from a later one of the same pid.
    """
    try:
        fields = stat(pid, proc)
        # The start is the 22nd.
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0
