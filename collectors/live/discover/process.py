"""What /proc says of one process, as far as finding workers needs it."""

from dataclasses import dataclass
from pathlib import Path

from oomctl.collectors.agent.process import stat
from oomctl.collectors.artifacts.logs.pattern import Pattern

MAX_BYTES = 1 << 20
_CONTAINER = Pattern(r"([0-9a-f]{64})")
_POD = Pattern(r"pod([0-9a-f]{8}[-_][0-9a-f_-]{27})")


@dataclass(frozen=True)
class Process:
    """One process.

    Attributes:
        pid: As seen from here.
        parent: Its parent.
        arguments: Its command line; one word where it gave itself a title.
        environment: Its variables at the start; None where they may not be read, as of another user's.
        container: Container id, or "".
        pod: Pod uid, or "".
    """

    pid: int
    parent: int
    arguments: tuple[str, ...]
    environment: dict[str, str] | None
    container: str = ""
    pod: str = ""

    @property
    def command(self) -> str:
        """The command line as text."""
        return " ".join(self.arguments)


def read(pid: int, proc: Path) -> Process | None:
    """A process; None if it is gone, is the kernel's own, or waits for its parent to notice its end."""
    folder = proc / str(pid)
    try:
        fields = stat(pid, proc)
        state, parent = fields[0], int(fields[1])
        line = _head(folder / "cmdline")
        if state in (b"Z", b"X") or not line.strip(b"\0 "):
            return None
    except (OSError, ValueError, IndexError):
        return None
    arguments = tuple(word.decode("utf-8", "replace") for word in line.rstrip(b"\0 ").split(b"\0"))
    group = _text(folder / "cgroup")
    container, pod = _CONTAINER.search(group), _POD.search(group)
    return Process(
        pid,
        parent,
        arguments,
        _environment(folder / "environ"),
        container[1] if container is not None else "",
        pod[1].replace("_", "-") if pod is not None else "",
    )


def every(proc: Path) -> dict[int, Process]:
    """All processes by pid."""
    pids = (int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
    return {pid: process for pid in pids if (process := read(pid, proc)) is not None}


def _environment(path: Path) -> dict[str, str] | None:
    try:
        words = _head(path).split(b"\0")
    except OSError:
        return None
    pairs = (word.decode("utf-8", "replace").partition("=") for word in words if b"=" in word)
    return {name: value for name, _, value in pairs}


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES)


def _text(path: Path) -> str:
    try:
        return _head(path).decode("utf-8", "replace")
    except OSError:
        return ""
