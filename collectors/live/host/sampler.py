"""The host's side of a worker's memory: its processes, their memory cgroups, and whom the kernel killed for it.

The kernel counts a kill before the process is gone. So a process that is missed while the count of its cgroup has grown was
killed for memory, whatever nobody said. Where its log may be read, and counts processes as this namespace does, its report
stands in place of that conclusion.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomctl.collectors.live.host.cgroup import Cgroups, Level, binding, keyed, pressure
from oomctl.collectors.live.host.ends import End, Ends
from oomctl.collectors.live.host.kernel_log import KernelLog, Report
from oomctl.collectors.live.processes import sees_all

EVERY_US = 10_000_000
"""At least so often a row is written; more often where the figure moves."""
STEP_SHARE = 0.01
"""By which what a cgroup uses has to move, as a share of what it may, to be written at once."""
FORGET_US = 60_000_000
"""A kill that no process of the worker is missed for, by then, was another's."""
MAX_GONE = 256
"""Kept of processes that are gone, for a report on them that comes late."""
SIGKILL = 9

Fact = tuple[str, dict[str, Any], dict[str, Any]]
"""(kind, its fields, common columns)."""


@dataclass(frozen=True)
class Process:
    """A process of a worker.

    Attributes:
        pid: As seen from here.
        common: incarnation, rank and the like, for its rows.
    """

    pid: int
    common: dict[str, Any]


@dataclass
class _Known:
    process: Process
    levels: list[Level]
    name: str | None = None
    rss_bytes: int | None = None
    missing: bool = False


@dataclass
class _Group:
    """A cgroup, or the host where none is to be seen; `kills` are those that are explained."""

    levels: list[Level]
    kills: list[int | None]
    grown_us: int | None = None
    written_us: int = 0
    current_bytes: int | None = None
    members: set[int] = field(default_factory=set)

    def explain(self, count: int) -> None:
        self.kills = [None if kills is None else kills + count for kills in self.kills]
        self.grown_us = None


class Host:
    """Samples the host's side of one worker.

    Args:
        root: Of the file system.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._cgroups = Cgroups(root)
        self._ends = Ends(root / "proc")
        self._known: dict[int, _Known] = {}
        self._groups: dict[str, _Group] = {}
        self._written_us = 0
        self._gone: dict[int, Process] = {}
        self._told: set[int] = set()
        self._absent: list[tuple[str, str]] = []
        self._kernel: KernelLog | None = None
        if not sees_all(root / "proc"):
            self._absent.append(("kernel_log", "it names processes by the ids of another namespace"))
        else:
            self._kernel = KernelLog(root)
            if self._kernel.absent is not None:
                self._absent.append(("kernel_log", self._kernel.absent))

    def follow(self, processes: Iterable[Process]) -> None:
        """Take up processes that are not known yet; they must live."""
        for process in processes:
            if process.pid not in self._known:
                levels = self._cgroups.of(process.pid)
                self._known[process.pid] = _Known(process, levels)
                self._ends.hold(process.pid)
                self._told.discard(process.pid)
                if not levels and "" not in self._groups:
                    why = f"no memory cgroup of pid {process.pid} is to be seen here: kills are counted host-wide"
                    self._absent.append(("host", why))
                group = self._groups.setdefault(_key(levels), _Group(levels, self._kills(levels)))
                group.members.add(process.pid)

    def sample(self, now_us: int) -> list[Fact]:
        """What is to be written now."""
        said = [{"name": name, "state": "absent", "detail": why} for name, why in self._absent]
        found: list[Fact] = [("collector", fields, {}) for fields in said]
        self._absent.clear()
        whole = now_us - self._written_us >= EVERY_US or now_us < self._written_us
        for known in self._known.values():
            if self._read(known) and whole:
                found.append(_of(known))
        self._written_us = now_us if whole else self._written_us
        for group in self._groups.values():
            if grown := self._grown(group):
                group.grown_us = group.grown_us or now_us
                if now_us - group.grown_us > FORGET_US:
                    group.explain(grown)
            found += self._usage(group, now_us, whole)
        return found + self._reported()

    def missing(self) -> list[int]:
        """Those that are followed and not there any more."""
        return [pid for pid, known in self._known.items() if known.missing]

    def gone(self, pids: Iterable[int], now_us: int) -> tuple[dict[int, End], list[Fact]]:
        """How processes ended that were followed, and the kernel's word on those that it killed for memory.

        With it stands who else of the worker was in the same cgroup then. Where several are gone at once, those that are
        known to have been killed come first, then the largest: the others mostly end because of it.
        """
        known = [found for pid in pids if (found := self._known.pop(pid, None)) is not None]
        ends = {each.process.pid: self._ends.of(each.process.pid) for each in known}
        self._gone = dict([*self._gone.items(), *((each.process.pid, each.process) for each in known)][-MAX_GONE:])
        for each in known:
            self._groups[_key(each.levels)].members.discard(each.process.pid)
        facts: list[Fact] = []
        for each in sorted(known, key=lambda each: (ends[each.process.pid].signal != SIGKILL, -(each.rss_bytes or 0))):
            if ends[each.process.pid] == End() or ends[each.process.pid].signal == SIGKILL:
                facts += self._word(each, now_us)
        return ends, facts

    def close(self) -> None:
        """Let go of all processes."""
        self._ends.close()
        if self._kernel is not None:
            self._kernel.close()

    def _reported(self) -> list[Fact]:
        """What the kernel's log says of kills of the worker's processes."""
        if self._kernel is None:
            return []
        processes = {**self._gone, **{pid: known.process for pid, known in self._known.items()}}
        facts: list[Fact] = []
        for report in self._kernel.reports(bool(self.missing()), processes):
            facts += self._of_report(report, processes)
        return facts

    def _of_report(self, report: Report, processes: dict[int, Process]) -> list[Fact]:
        victim = processes[report.victim_pid]
        facts: list[Fact] = []
        for fact in report.around:
            fields, common = fact.fields, victim.common
            if fact.kind == "process":
                owner = processes.get(fields["pid"])
                common = owner.common if owner is not None else {}
                fields = {**fields, "own": owner is not None, "owner_incarnation": common.get("incarnation")}
            facts.append((fact.kind, fields, common))
        if report.victim_pid not in self._told:
            self._told.add(report.victim_pid)
            facts.append(("oom", report.kill, victim.common))
        return facts

    def _word(self, victim: _Known, now_us: int) -> list[Fact]:
        """What the count of kills says of a process that is gone; nothing where it did not grow."""
        group = self._groups[_key(victim.levels)]
        if not self._grown(group):
            return []
        group.explain(1)
        others = [self._known[pid] for pid in sorted(group.members) if self._read(self._known[pid])]
        where = f"memory cgroup {group.levels[0].name}" if group.levels else "the host"
        found = [*map(_of, (victim, *others)), *self._usage(group, now_us, True)]
        if victim.process.pid in self._told:
            return found
        self._told.add(victim.process.pid)
        fields = {
            "resource": "host",
            "api": "cgroup" if group.levels else "kernel",
            "error_type": "oom_kill",
            "message": f"{where}: its count of processes killed for memory grew as pid {victim.process.pid} went",
            "victim": victim.name,
            "victim_pid": victim.process.pid,
            "own_process_bytes": victim.rss_bytes,
            "fatal": True,
        }
        return [*found, ("oom", fields, victim.process.common)]

    def _grown(self, group: _Group) -> int:
        """How many kills are not explained: in the cgroup, or in the one above if it is removed."""
        for now, before in zip(self._kills(group.levels), group.kills, strict=True):
            if now is not None and before is not None:
                return max(now - before, 0)
        return 0

    def _usage(self, group: _Group, now_us: int, whole: bool) -> list[Fact]:
        """The row of a cgroup, or of the host, where it is due."""
        level = binding(group.levels)
        total, available = self._memory()
        current = level.current_bytes if level is not None else None
        limit = level.limit_bytes if level is not None else None
        step = STEP_SHARE * (limit or total or 0)
        moved = abs((current or 0) - (group.current_bytes or 0)) > step
        if not (whole or moved):
            return []
        group.current_bytes = current
        of_cgroup = level.pressure_ratio if level is not None else None
        fields = {
            "cgroup_current_bytes": current,
            "cgroup_limit_bytes": limit,
            "cgroup_peak_bytes": level.peak_bytes if level is not None else None,
            "cgroup_oom_kills": self._kills(group.levels)[0] if group.levels else None,
            "total_bytes": total,
            "free_bytes": available,
            "pressure_ratio": self._pressure() if of_cgroup is None else of_cgroup,
        }
        lives = {self._known[pid].process.common.get("incarnation") for pid in group.members}
        common = {"incarnation": next(iter(lives))} if len(lives) == 1 else {}
        return [("host", fields, common)] if any(value is not None for value in fields.values()) else []

    def _kills(self, levels: list[Level]) -> list[int | None]:
        """Kills for memory in a cgroup and in the one above, which outlives it; without cgroups, on the whole host."""
        return [level.oom_kills for level in levels[:2]] or [self._keyed("vmstat").get("oom_kill")]

    def _memory(self) -> tuple[int | None, int | None]:
        found = self._keyed("meminfo")
        kib = (found.get("MemTotal"), found.get("MemAvailable"))
        return tuple(None if value is None else value << 10 for value in kib)  # type: ignore[return-value]

    def _pressure(self) -> float | None:
        return pressure(self._root / "proc" / "pressure" / "memory")

    def _read(self, known: _Known) -> bool:
        """Look what a process holds; False where it is gone."""
        found = self._keyed(f"{known.process.pid}/status")
        known.missing = "VmRSS" not in found
        if known.missing:
            return False
        known.rss_bytes = found["VmRSS"] << 10
        if known.name is None:
            try:
                known.name = (self._root / "proc" / str(known.process.pid) / "comm").read_text("utf-8", "replace").strip()
            except OSError:
                known.name = None
        return True

    def _keyed(self, name: str) -> dict[str, int]:
        try:
            return keyed((self._root / "proc" / name).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return {}


def _key(levels: list[Level]) -> str:
    return str(levels[0].folder) if levels else ""


def _of(known: _Known) -> Fact:
    fields = {
        "pid": known.process.pid,
        "name": known.name,
        "rss_bytes": known.rss_bytes,
        "own": True,
        "owner_incarnation": known.process.common.get("incarnation"),
    }
    return "process", fields, known.process.common
