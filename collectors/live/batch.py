"""What a live source hands over in one round."""

from dataclasses import dataclass, field

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
