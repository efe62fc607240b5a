"""What the recorder says itself: losses, its own state, and what it saw of the worker's end."""

import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from oomctl.collectors.agent.header import Header
from oomctl.collectors.live.host.ends import End
from oomctl.collectors.live.stream import Stream
from oomctl.schemas.rows import Row

RECORDER = "recorder"
_BROKEN: dict[int | None, tuple[str, str]] = {
    signal.SIGSEGV: ("segfault", "a segmentation fault"),
    signal.SIGBUS: ("bus_error", "a bus error"),
    signal.SIGABRT: ("abort", "it aborted itself"),
}
"""Ends by a signal that a process brings upon itself."""


class Note(NamedTuple):
    """What is to be told of a source.

    Attributes:
        source: Which, by its name.
        state: ok, degraded, failed, absent.
        detail: Why.
    """

    source: str
    state: str
    detail: str


class OwnRows(Stream):
    """What the recorder says itself.

    Args:
        common: The common columns: node, worker; `stream` is what the stream begins with.

    Attributes:
        lost: Records whose loss was told, of this recorder.
    """

    def __init__(self, common: Mapping[str, Any]) -> None:
        super().__init__(RECORDER, "host", common)
        self.lost = 0

    def loss(self, ts: int, reason: str, count: int, detail: str) -> Row:
        """Something is lost."""
        self.lost += count
        return self.row(ts, "loss", {"reason": reason, "count": count, "detail": detail})

    def state(self, ts: int, state: str, detail: str, **fields: Any) -> Row:
        """How the recorder is: ok, degraded or failed."""
        return self.told(ts, Note(RECORDER, state, detail), **fields)

    def told(self, ts: int, note: Note, **fields: Any) -> Row:
        """How a source is."""
        told = {"name": note.source, "state": note.state, "detail": note.detail[:500]}
        return self.row(ts, "collector", {**told, **fields})

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
