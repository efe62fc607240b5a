"""What is seen beside the worker: the host's side of its memory, and how its processes ended."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from oomctl.collectors.live.host.ends import End
from oomctl.collectors.live.host.sampler import Host, Process
from oomctl.collectors.live.stream import Stream
from oomctl.schemas.rows import Row

HOST = "host"
MAX_ENDS = 256
"""Kept of processes that are gone, until their rings are read to the end."""


class HostRows(Stream):
    """Rows of the host sampler, in a stream of their own.

    Args:
        common: The common columns: node, worker; `stream` is what the stream begins with.
        root: Of the file system.
    """

    def __init__(self, common: Mapping[str, Any], root: Path) -> None:
        super().__init__(HOST, "host", common)
        self._host = Host(root)
        self._ends: dict[int, End] = {}

    def look(self, processes: Iterable[Process], now_us: int) -> list[Row]:
        """A sample of the worker's processes, of their cgroups, and the kernel's word on those that are gone."""
        self._host.follow(processes)
        facts = self._host.sample(now_us)
        ends, words = self._host.gone(self._host.missing(), now_us)
        self._ends = dict([*self._ends.items(), *ends.items()][-MAX_ENDS:])
        return [self.row(now_us, *fact) for fact in facts + words]

    def end(self, pid: int | None) -> End:
        """How a process ended that was followed, as far as it is known."""
        return self._ends.get(pid, End()) if pid is not None else End()

    def close(self) -> None:
        """Let go of all processes."""
        self._host.close()
