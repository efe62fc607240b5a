"""What is seen beside the worker: the host's side of its memory, and how its processes ended."""

from collections.abc import Iterable
from pathlib import Path

from oomctl.collectors.live.host.ends import End
from oomctl.collectors.live.host.sampler import Host, Process
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.own import Numbered
from oomctl.schemas.rows import Row

MAX_ENDS = 256
"""Kept of processes that are gone, until their rings are read to the end."""


class HostRows(Numbered):
    """Rows of the host sampler, in a stream of their own.

    Args:
        node: This host.
        worker: The worker that is recorded.
        state: What an earlier recorder knew.
        root: Of the file system.
    """

    def __init__(self, node: str, worker: str, state: State, root: Path) -> None:
        super().__init__("host", node, worker, state)
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
