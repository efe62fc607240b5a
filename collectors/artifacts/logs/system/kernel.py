"""The kernel's reports: its OOM killer (mm/oom_kill.c, mm/memcontrol.c, as spelled from 2.6 to 6.x) and the driver's Xid.

A report runs from "invoked oom-killer" over the state of memory and the table of tasks to "Killed process". dmesg,
journalctl and syslog put different things before its lines, so nothing is anchored at a line's begin.
"""

import re

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system import ends
from oomctl.collectors.artifacts.logs.system.block import Block

KIB = 1024
PAGE_BYTES = 4 * KIB
SMALLEST_TASK_BYTES = 64 << 20
"""Tasks that hold less are not kept: a report lists every task of the node."""

_KILLED = Pattern(
    r"(?P<scope>Memory cgroup out of memory|Out of memory)(?: \(\w+\))?: Kill(?:ed)? process "
    r"(?P<pid>\d{1,10}),? \((?P<name>[^)]{1,64})\)(?P<rest>.*)"
)
_SACRIFICED = Pattern(r"\bKilled process (?P<pid>\d{1,10}),? \((?P<name>[^)]{1,64})\)(?P<rest>.{0,40}\btotal-vm:.*)")
"""Kernels before 5.x say first whom they chose, then, on a line of its own, whom they killed."""
_CHOSEN = Pattern(r"oom-kill:constraint=(?P<constraint>\w+)\S*?,task=(?P<name>[^,]{1,64}),pid=(?P<pid>\d{1,10})")
_REAPED = Pattern(r"oom_reaper: (?:reaped|unable to reap) (?:process )?(?:pid:)?(?P<pid>\d{1,10}) \((?P<name>[^)]{1,64})\)")
_SYSTEM_OOM = Pattern(r"System OOM encountered, victim process: (?P<name>[^,]{1,64}), pid: (?P<pid>\d{1,10})")
_INVOKED = Pattern(r"\S invoked oom-killer\b")
_RSS = Pattern(r"(anon-rss|file-rss|shmem-rss): ?(\d{1,15})kB")
_MEMCG_USAGE = Pattern(r"\bmemory: usage (\d{1,18})kB, limit (\d{1,20})kB")
_RAM = Pattern(r"(?:^|\s)(\d{1,12}) pages (?:of )?RAM\b")
_EVENTS = Pattern(r"^oom_kill (\d{1,9})$")
_XID = Pattern(r"NVRM: Xid \(\S+\): (\d{1,4})\b.{0,400}")
_UNLIMITED_KIB = 2**52
"""cgroup v1 prints the largest whole page number for "no limit"."""

XID_CLEANUP = frozenset({43, 45})
"""Channels stopped or torn down because their process had died: a consequence."""


def facts(text: str) -> list[Fact]:
    """What a line of the kernel's tells that stands alone."""
    for pattern in (_KILLED, _SACRIFICED, _CHOSEN, _REAPED, _SYSTEM_OOM):
        match = pattern.search(text)
        if match is not None:
            return _kill(match, text)
    usage = _MEMCG_USAGE.search(text)
    if usage is not None:
        fields = {"cgroup_current_bytes": int(usage[1]) * KIB}
        if int(usage[2]) < _UNLIMITED_KIB:
            fields["cgroup_limit_bytes"] = int(usage[2]) * KIB
        return [Fact("host", fields)]
    if _INVOKED.search(text) is not None:
        return [Fact("fault", {"code": "oom_killer", "detail": text[: ends.MAX_DETAIL]})]
    events = _EVENTS.match(text)
    if events is not None:
        count = int(events[1])
        return [Fact("host", {"cgroup_oom_kills": count}), *([ends.oom_kill("kernel_cgroup", text)] if count else [])]
    xid = _XID.search(text)
    if xid is not None:
        code = "xid_cleanup" if int(xid[1]) in XID_CLEANUP else "xid"
        return [Fact("fault", {"code": code, "detail": xid[0][: ends.MAX_DETAIL]})]
    return []


def _kill(match: re.Match[str], text: str) -> list[Fact]:
    found = match.groupdict()
    rss = {name: int(amount) * KIB for name, amount in _RSS.pairs(found.get("rest") or "")}
    held = sum(rss.values()) or None
    cgroup = "cgroup" in (found.get("scope") or "") or found.get("constraint") == "CONSTRAINT_MEMCG"
    pid, name = int(found["pid"]), found["name"]
    kill = ends.oom_kill("kernel_cgroup" if cgroup else "kernel", text, victim=name, victim_pid=pid, own_process_bytes=held)
    if held is None:
        return [kill]
    shared = {"shared_bytes": rss["shmem-rss"]} if rss.get("shmem-rss") else {}
    return [
        kill,
        Fact("host", {"rss_bytes": held, **shared}),
        Fact("process", {"pid": pid, "name": name, "rss_bytes": held}),
    ]


class TaskTable(Block):
    """The tasks among which the kernel chose, with the pages that each held.

    The columns between rss and oom_score_adj changed over the versions; the first five and the last two did not.
    """

    heading = Pattern(r"Tasks state \(memory values in pages\)|\buid\s+tgid\s+total_vm\s+rss\b|Mem-Info:")
    patience = 60
    """Of the lines of a report only a few are read."""

    _ROW = Pattern(
        r"\[ *(?P<pid>\d{1,10})\] +\d{1,10} +\d{1,10} +\d{1,15} +(?P<rss>\d{1,15})(?: +-?\d{1,18}){3,8}"
        r" +(?P<name>\S.{0,63})$"
    )
    _BUDDIES = Pattern(r"\bNode \d+ \S+: \d+\*(4|16|64)kB ")
    _RELEASE = Pattern(r"CPU: \d+ .*\b64k\b")
    _FREE = Pattern(r"(?:^|\s)free:(\d{1,15}) free_pcp:")
    _END = Pattern(r"Kill(?:ed)? process \d")

    def __init__(self) -> None:
        super().__init__()
        self._page_bytes = PAGE_BYTES

    def take(self, text: str) -> list[Fact] | None:
        """What a line tells; None where it does not belong."""
        if _INVOKED.search(text) is not None:  # a fact of its own, and the begin of a report
            self._left = self.patience
            self._page_bytes = PAGE_BYTES
            return None
        return super().take(text)

    def row(self, text: str) -> list[Fact] | None:
        """A task, or a line that tells the size of a page, of memory, or of what was free."""
        task = self._ROW.search(text)
        if task is not None:
            held = int(task["rss"]) * self._page_bytes
            if held < SMALLEST_TASK_BYTES:
                return []
            return [Fact("process", {"pid": int(task["pid"]), "name": task["name"].strip(), "rss_bytes": held})]
        buddies = self._BUDDIES.search(text)
        if buddies is not None:
            self._page_bytes = int(buddies[1]) * KIB
            return []
        if self._RELEASE.search(text) is not None:
            self._page_bytes = 64 * KIB
            return []
        ram = _RAM.search(text)
        if ram is not None:
            return [Fact("host", {"total_bytes": int(ram[1]) * self._page_bytes})]
        free = self._FREE.search(text)
        if free is not None:
            return [Fact("host", {"free_bytes": int(free[1]) * self._page_bytes})]
        if self._END.search(text) is not None:
            self.close()
        return None
