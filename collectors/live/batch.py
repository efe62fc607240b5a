"""What a live source hands over in one round, and what every live source is."""

from dataclasses import dataclass, field
from typing import Protocol

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
    """A source beside the worker. It numbers its own stream, and goes on from where an earlier one ended.

    Attributes:
        name: Tells it from the worker's other sources, in the same words after a restart of the recorder.
    """

    name: str

    @property
    def seq(self) -> int:
        """Number of the last row."""

    def poll(self) -> Batch:
        """What came since the last call. Never waits, never raises for what the peer does."""

    def close(self) -> None:
        """Let go of it."""
