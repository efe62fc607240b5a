"""The host's side of a worker's memory: its processes, their memory cgroups, and whom the kernel killed for it.

The kernel counts a kill before the process is gone. So a process that is missed while the count of its cgroup has grown was
killed for memory, whatever nobody said. Where its log may be read, and counts processes as this namespace does, its report
stands in place of that conclusion.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomctl.collectors.live.host.cgroup import Cgroups, Level
from oomctl.collectors.live.host.ends import End, Ends
from oomctl.collectors.live.host.group import Group, key, proc_keyed
from oomctl.collectors.live.host.kernel_log import KernelLog, Report
from oomctl.collectors.live.processes import sees_all

EVERY_US = 10_000_000
"""At least so often a row is written; more often where the figure moves."""
FORGET_US = 60_000_000
"""A kill that no process of the worker is missed for, by then, was another's."""
MAX_GONE = 256
"""Kept of processes that are gone, for a report on them that comes late."""
SIGKILL = 9
KERNEL_LOG, KILL_COUNT = "kernel_log", "kill_count"
"""Who tells of kills for memory, as `collector` rows name them."""

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
        self._groups: dict[str, Group] = {}
        self._written_us = 0
        self._gone: dict[int, Process] = {}
        self._told: set[int] = set()
        self._absent: list[tuple[str, str]] = []
        self._kernel: KernelLog | None = None
        if not sees_all(root / "proc"):
            self._absent.append((KERNEL_LOG, "it names processes by the ids of another namespace"))
        else:
            self._kernel = KernelLog(root)
            if self._kernel.absent is not None:
                self._absent.append((KERNEL_LOG, self._kernel.absent))

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
                group = self._groups.setdefault(key(levels), Group(self._root, levels))
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
            if grown := group.grown():
                group.grown_us = group.grown_us or now_us
                if now_us - group.grown_us > FORGET_US:
                    group.explain(grown)
            found += self._usage(group, whole)
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
            self._groups[key(each.levels)].members.discard(each.process.pid)
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
        """What the count of kills says of a process that is gone; where it did not grow, who looked and saw no kill."""
        group = self._groups[key(victim.levels)]
        if not group.grown():
            return [] if victim.process.pid in self._told else self._saw_none(victim, group)
        group.explain(1)
        others = [self._known[pid] for pid in sorted(group.members) if self._read(self._known[pid])]
        found = [*map(_of, (victim, *others)), *self._usage(group, True)]
        if victim.process.pid in self._told:
            return found
        self._told.add(victim.process.pid)
        fields = {
            "resource": "host",
            "api": "cgroup" if group.levels else "kernel",
            "error_type": "oom_kill",
            "message": f"{group.where}: its count of processes killed for memory grew as pid {victim.process.pid} went",
            "victim": victim.name,
            "victim_pid": victim.process.pid,
            "own_process_bytes": victim.rss_bytes,
            "fatal": True,
        }
        return [*found, ("oom", fields, victim.process.common)]

    def _saw_none(self, victim: _Known, group: Group) -> list[Fact]:
        """That no kill is told of a process that is gone, by each that tells: it is counted before it goes."""
        of = f"as pid {victim.process.pid} went"
        said = []
        if group.grown() is not None:
            said.append(
                {"name": KILL_COUNT, "detail": f"{group.where}: its count of processes killed for memory stood still {of}"}
            )
        if self._kernel is not None and self._kernel.follows:
            said.append({"name": KERNEL_LOG, "detail": f"{self._kernel.name}: it tells of no kill for memory {of}"})
        return [("collector", {**fields, "state": "ok"}, victim.process.common) for fields in said]

    def _usage(self, group: Group, always: bool) -> list[Fact]:
        """The row of a cgroup, or of the host, where it is due."""
        fields = group.usage(always)
        lives = {self._known[pid].process.common.get("incarnation") for pid in group.members}
        common = {"incarnation": next(iter(lives))} if len(lives) == 1 else {}
        return [] if fields is None else [("host", fields, common)]

    def _read(self, known: _Known) -> bool:
        """Look what a process holds; False where it is gone."""
        found = proc_keyed(self._root, f"{known.process.pid}/status")
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


def _of(known: _Known) -> Fact:
    fields = {
        "pid": known.process.pid,
        "name": known.name,
        "rss_bytes": known.rss_bytes,
        "own": True,
        "owner_incarnation": known.process.common.get("incarnation"),
    }
    return "process", fields, known.process.common
