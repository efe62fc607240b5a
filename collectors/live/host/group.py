"""What the processes of a worker share of the host's memory: their cgroup, or the host where none is to be seen."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomctl.collectors.live.host.cgroup import Level, binding, keyed, pressure

STEP_SHARE = 0.01
"""By which what a cgroup uses has to move, as a share of what it may, to be written at once."""


def proc_keyed(root: Path, name: str) -> dict[str, int]:
    """The names and numbers of a file under /proc; empty where it is not to be read."""
    try:
        return keyed((root / "proc" / name).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return {}


@dataclass
class Group:
    """A cgroup and the one above it, which outlives it; without any, the host.

    Attributes:
        root: Of the file system.
        levels: The cgroup, and those above.
        kills: Kills for memory that are explained, of the first two levels; without cgroups, on the whole host.
        grown_us: When more were seen first.
        current_bytes: What was in use when it was written last.
        members: The process ids in it that are followed.
    """

    root: Path
    levels: list[Level]
    kills: list[int | None] = field(init=False)
    grown_us: int | None = None
    current_bytes: int | None = None
    members: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kills = self._counted()

    @property
    def where(self) -> str:
        """In words."""
        return f"memory cgroup {self.levels[0].name}" if self.levels else "the host"

    def grown(self) -> int | None:
        """How many kills are not explained: in the cgroup, or in the one above if it is removed; None if not to be seen."""
        for now, before in zip(self._counted(), self.kills, strict=True):
            if now is not None and before is not None:
                return max(now - before, 0)
        return None

    def explain(self, count: int) -> None:
        """So many kills are explained."""
        self.kills = [None if kills is None else kills + count for kills in self.kills]
        self.grown_us = None

    def usage(self, always: bool) -> dict[str, Any] | None:
        """The fields of its `host` row, where one is due; None else, or where nothing is to be read."""
        level, memory = binding(self.levels), proc_keyed(self.root, "meminfo")
        total, available = (
            None if (kib := memory.get(name)) is None else kib << 10 for name in ("MemTotal", "MemAvailable")
        )
        current = level.current_bytes if level is not None else None
        limit = level.limit_bytes if level is not None else None
        moved = abs((current or 0) - (self.current_bytes or 0)) > STEP_SHARE * (limit or total or 0)
        if not (always or moved):
            return None
        self.current_bytes = current
        of_cgroup = level.pressure_ratio if level is not None else None
        fields = {
            "cgroup_current_bytes": current,
            "cgroup_limit_bytes": limit,
            "cgroup_peak_bytes": level.peak_bytes if level is not None else None,
            "cgroup_oom_kills": self._counted()[0] if self.levels else None,
            "total_bytes": total,
            "free_bytes": available,
            "pressure_ratio": pressure(self.root / "proc/pressure/memory") if of_cgroup is None else of_cgroup,
        }
        return fields if any(value is not None for value in fields.values()) else None

    def _counted(self) -> list[int | None]:
        found = [level.oom_kills for level in self.levels[:2]]
        return found or [proc_keyed(self.root, "vmstat").get("oom_kill")]


def key(levels: list[Level]) -> str:
    """What tells cgroups apart; empty for the host."""
    return str(levels[0].folder) if levels else ""
