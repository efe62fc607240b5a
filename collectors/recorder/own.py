"""What the recorder says itself: losses, its own state, and what it saw of the worker's end."""

import signal
from typing import Any

from oomctl.collectors.agent.header import Header
from oomctl.collectors.live.host.ends import End
from oomctl.collectors.live.stream import Stream
from oomctl.collectors.recorder.live import State
from oomctl.schemas.rows import Row

_BROKEN: dict[int | None, tuple[str, str]] = {
    signal.SIGSEGV: ("segfault", "a segmentation fault"),
    signal.SIGBUS: ("bus_error", "a bus error"),
    signal.SIGABRT: ("abort", "it aborted itself"),
}
"""Ends by a signal that a process brings upon itself."""


class Numbered(Stream):
    """Rows of the recorder's own streams, whose numbers its state keeps.

    Args:
        name: Of the stream, behind the node's; also the key of its number in the state.
        node: This host.
        worker: The worker that is recorded.
        state: What an earlier recorder knew.
    """

    def __init__(self, name: str, node: str, worker: str, state: State) -> None:
        super().__init__(f"{node}/{name}", "host", {"node": node, "worker": worker}, int(state.get(name, 0)))
        self._name = name

    def at(self) -> State:
        """The number of the last row."""
        return {self._name: self.seq}


class OwnRows(Numbered):
    """What the recorder says itself.

    Args:
        node: This host.
        worker: The worker that is recorded.
        state: What an earlier recorder knew.
    """

    def __init__(self, node: str, worker: str, state: State) -> None:
        super().__init__("recorder", node, worker, state)

    def loss(self, ts: int, reason: str, count: int, detail: str) -> Row:
        """Something is lost."""
        return self.row(ts, "loss", {"reason": reason, "count": count, "detail": detail})

    def state(self, ts: int, state: str, detail: str, **fields: Any) -> Row:
        """How the recorder is: ok, degraded or failed."""
        return self.row(ts, "collector", {"name": "recorder", "state": state, "detail": detail, **fields})

    def ended(self, ts: int, incarnation: str, detail: str, end: End, header: Header | None) -> Row:
        """A process of the worker is gone and had said nothing; how, where the kernel tells."""
        known = {} if header is None else {"rank": header.rank, "rank_name": header.rank_name or None}
        common = {"incarnation": incarnation, **known}
        if end.signal in _BROKEN:
            code, words = _BROKEN[end.signal]
            return self.row(ts, "fault", {"code": code, "detail": f"{detail}: {words}", "fatal": True}, common)
        how = {"signal": end.signal, "exit_code": end.exit_code}
        told = "" if end == End() else f": signal {end.signal}" if end.signal else f": status {end.exit_code}"
        return self.row(ts, "lifecycle", {"phase": "killed", "detail": detail + told, **how}, common)
