"""What a live source hands over in one round, and what every live source is."""

from dataclasses import dataclass, field
from typing import Protocol

from oomctl.collectors.live.stream import Stream
from oomctl.schemas.rows import Row


@dataclass
class Batch:
    """One round of a source.

    Attributes:
        rows: In order within each stream.
        notes: (state, detail) of the source, told once when it changes.
        losses: (reason, count, detail).
        restarts: Why the worker behind the source is another process than before.
    """

    rows: list[Row] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    losses: list[tuple[str, int, str]] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)


class LiveSource(Protocol):
    """A source beside the worker.

    Attributes:
        name: Tells it from the worker's other sources, in the same words after a restart of the recorder.
        stream: Its rows' numbers, from which a later source goes on.
    """

    name: str
    stream: Stream

    def poll(self) -> Batch:
        """What came since the last call. Never waits, never raises for what the peer does."""

    def close(self) -> None:
        """Let go of it."""


class Standing:
    """How a source stands.

    Attributes:
        state: "", then ok, absent, or what is wrong.
    """

    def __init__(self) -> None:
        self.state = ""

    def _turn(self, state: str, detail: str, batch: Batch) -> None:
        """Tell a state once, when it begins."""
        if state != self.state:
            self.state = state
            batch.notes.append((state if state in ("ok", "absent") else "degraded", detail))
