"""The kernel's log as it grows: what its OOM killer says of whom it chose, how much that held, and who else was there.

/dev/kmsg is followed. Where it may not be read, the journal is asked when a process is missed: it is often open to users
whom dmesg_restrict keeps from the device, and a follower of it would be one more process beside the worker.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.collectors.artifacts.logs.system import kernel
from oomctl.collectors.live.background import Call

RECORD_BYTES = 8192
"""Over the kernel's longest record (CONSOLE_EXT_LOG_MAX); a shorter buffer fails."""
ROUND_RECORDS = 5_000
REPORT_FACTS = 2_000
"""Kept of a report until it says who was killed: a line for each large task of the node."""
JOURNAL_S = 20
JOURNAL_BYTES = 4 << 20
JOURNALS = ("run/log/journal", "var/log/journal")


@dataclass
class Report:
    """A kill, as the kernel's log tells it.

    Attributes:
        victim_pid: Whom it killed.
        kill: Fields of the oom row.
        around: What stood above it: memory, limits, the tasks among which it chose.
    """

    victim_pid: int
    kill: dict[str, Any]
    around: list[Fact] = field(default_factory=list)


class Kmsg:
    """Follows /dev/kmsg from its present end.

    Format: Documentation/ABI/testing/dev-kmsg of the kernel: priority, number, time and flags, `;`, the text; lines that
    begin with a blank belong to the record above them. A read gives one record.

    Args:
        path: The device.

    Raises:
        OSError: If it may not be read.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._file, 0, os.SEEK_END)

    def lines(self, missed: bool) -> Iterator[str]:
        """The texts that came since the last call."""
        for _ in range(ROUND_RECORDS):
            try:
                record = os.read(self._file, RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue  # overwritten before it was read: the next read goes on behind the hole
                return
            if not record:
                return
            for line in record.decode("utf-8", "replace").splitlines():
                if not line.startswith(" "):
                    yield line.partition(";")[2]

    def close(self) -> None:
        """Let go of it."""
        os.close(self._file)


class Journal:
    """Asks the journal for the kernel's lines of the last minute, once a process is missed."""

    def __init__(self) -> None:
        self._asked: Call[str] | None = None

    def lines(self, missed: bool) -> Iterator[str]:
        """What it answered, once it has."""
        if missed and self._asked is None:
            self._asked = Call(_journal, "oomctl-journal")
        if self._asked is not None and self._asked.done:
            asked, self._asked = self._asked, None
            try:
                yield from asked.result().splitlines()
            except (OSError, subprocess.SubprocessError):
                return

    def close(self) -> None:
        """A question that is out ends by itself."""


class KernelLog:
    """The kernel's word on kills for memory.

    Args:
        root: Of the file system.

    Attributes:
        name: What is read.
        absent: Why there is none, or None.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.name = "/dev/kmsg"
        self.absent: str | None = None
        self._source: Kmsg | Journal | None = None
        self._table = kernel.TaskTable()
        self._around: list[Fact] = []
        try:
            self._source = Kmsg(root / "dev/kmsg")
        except OSError as error:
            if journal_readable(root):
                self._source, self.name = Journal(), "the journal"
            else:
                self.absent = f"/dev/kmsg: {error.strerror}; no journal to be read"

    @property
    def follows(self) -> bool:
        """Whether every line is read as it comes, so that silence says something; the journal answers later."""
        return isinstance(self._source, Kmsg)

    def reports(self, missed: bool, wanted: Container[int]) -> list[Report]:
        """Kills that were told since the last call.

        Args:
            missed: Whether a process is missed: the journal is asked then.
            wanted: Process ids whose kills matter; what is said of others is dropped.
        """
        found: dict[int, Report] = {}
        for line in self._source.lines(missed) if self._source is not None else ():
            facts = self._table.take(line)
            self._weigh(kernel.facts(line) if facts is None else facts, wanted, found)
        return list(found.values())

    def close(self) -> None:
        """Let go of it."""
        if self._source is not None:
            self._source.close()

    def _weigh(self, facts: list[Fact], wanted: Container[int], found: dict[int, Report]) -> None:
        """What a line says: of a kill, of what stands around it, or that a report begins."""
        kill = next((fact.fields for fact in facts if fact.kind == "oom"), None)
        if kill is None:
            begins = any(fact.kind == "fault" for fact in facts)
            self._around = [] if begins else [*self._around, *facts][-REPORT_FACTS:]
            return
        around, self._around = self._around, []
        pid = kill.get("victim_pid")
        if pid is not None and pid in wanted:
            # One kill is told of several times: whom it chose, whom it killed and what that held, whom it reaped.
            kill = {**kill, "message": redact(kill["message"])}
            report = found.setdefault(pid, Report(pid, kill, around))
            if report.kill.get("own_process_bytes") is None:
                report.kill = kill


def journal_readable(root: Path) -> bool:
    """Whether the system's journal may be read from here."""
    if root != Path("/") or shutil.which("journalctl") is None:
        return False
    journals = (path for name in JOURNALS for path in (root / name).glob("*/system.journal"))
    return any(os.access(path, os.R_OK) for path in journals)


def _journal() -> str:
    command = ["journalctl", "--dmesg", "--quiet", "--no-pager", "--output=cat", "--since=-60s"]
    told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=JOURNAL_S, check=True)
    return told.stdout[-JOURNAL_BYTES:].decode("utf-8", "replace")
