"""A memory cgroup as its files tell it, of either version: what is used, what is allowed, who was killed.

Formats: Documentation/admin-guide/cgroup-v2.rst (memory.events counts what happened below it too) and
cgroup-v1/memory.rst (memory.oom_control counts only its own processes).
"""

from dataclasses import dataclass
from pathlib import Path

UNLIMITED = 1 << 60
"""Version 1 prints the largest multiple of a page for no limit."""
MAX_LEVELS = 16


@dataclass(frozen=True)
class Level:
    """A memory cgroup.

    Attributes:
        folder: Where its files are.
        name: Its path as the kernel's log has it.
    """

    folder: Path
    name: str

    @property
    def current_bytes(self) -> int | None:
        """In use now, by all below it."""
        return _number(self.folder / "memory.current", self.folder / "memory.usage_in_bytes")

    @property
    def limit_bytes(self) -> int | None:
        """What it may use; None without a limit."""
        limit = _number(self.folder / "memory.max", self.folder / "memory.limit_in_bytes")
        return None if limit is None or limit >= UNLIMITED else limit

    @property
    def peak_bytes(self) -> int | None:
        """The most it ever used."""
        return _number(self.folder / "memory.peak", self.folder / "memory.max_usage_in_bytes")

    @property
    def oom_kills(self) -> int | None:
        """How many of its processes were killed for memory, by whichever limit."""
        for name in ("memory.events", "memory.oom_control"):
            if (text := _text(self.folder / name)) is not None:
                return keyed(text).get("oom_kill")
        return None

    @property
    def pressure_ratio(self) -> float | None:
        """The share of the last 10 s in which a process of it waited for memory."""
        return pressure(self.folder / "memory.pressure")


class Cgroups:
    """Which memory cgroups processes are in.

    Args:
        root: Of the file system, so that tests can make one up.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._mounts = _mounts(root)

    def of(self, pid: int) -> list[Level]:
        """The memory cgroups that a process is in, its own first, as far as they can be seen from here."""
        for version, path in self._named(pid):
            for mount, top in self._mounts[version]:
                inside = path.removeprefix(top) if top != "/" else path
                folder = self._root / mount.lstrip("/") / inside.lstrip("/")
                if ".." in Path(path).parts or not _is_memory(folder):
                    continue
                above = Path(inside.lstrip("/"))
                names = [above, *above.parents][:MAX_LEVELS] if above.parts else [above]
                base = self._root / mount.lstrip("/")
                return [Level(base / name, f"/{name}" if name.parts else "/") for name in names if _is_memory(base / name)]
        return []

    def _named(self, pid: int) -> list[tuple[int, str]]:
        """(version, path) of the hierarchies that may count its memory: version 1's, if it does, hides the other."""
        text = _text(self._root / "proc" / str(pid) / "cgroup") or ""
        found: list[tuple[int, str]] = []
        for line in text.splitlines():
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if "memory" in controllers.split(","):
                found.insert(0, (1, path))
            elif number == "0" and not controllers:
                found.append((2, path))
        return found


def binding(levels: list[Level]) -> Level | None:
    """The one that allows the least, else the process's own; None without any."""
    limited = [(limit, n) for n, level in enumerate(levels) if (limit := level.limit_bytes) is not None]
    return levels[min(limited)[1]] if limited else next(iter(levels), None)


def pressure(path: Path) -> float | None:
    """The `some` line's avg10 of a PSI file, as a ratio."""
    for line in (_text(path) or "").splitlines():
        if line.startswith("some "):
            for word in line.split():
                if word.startswith("avg10="):
                    try:
                        return float(word[6:]) / 100
                    except ValueError:
                        return None
    return None


def keyed(text: str) -> dict[str, int]:
    """A flat file of names and numbers, one a line; what comes behind the number is its unit, or nothing."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdecimal():
            found[words[0].rstrip(":")] = int(words[1])
    return found


def _mounts(root: Path) -> dict[int, list[tuple[str, str]]]:
    """Of each version: (mount point, which cgroup lies there)."""
    found: dict[int, list[tuple[str, str]]] = {1: [], 2: []}
    for line in (_text(root / "proc" / "self" / "mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields, words = left.split(), right.split()
        if len(fields) < 5 or len(words) < 3:
            continue
        if words[0] == "cgroup2":
            found[2].append((fields[4], fields[3]))
        elif words[0] == "cgroup" and "memory" in words[-1].split(","):
            found[1].append((fields[4], fields[3]))
    return found


def _is_memory(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("memory.current", "memory.usage_in_bytes"))


def _number(*paths: Path) -> int | None:
    for path in paths:
        text = (_text(path) or "").strip()
        if text.isdecimal():
            return int(text)
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
