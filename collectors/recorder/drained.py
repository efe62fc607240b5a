"""What one round of draining a worker's rings brought."""

from dataclasses import dataclass, field

from oomctl.collectors.agent.header import Header
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.slots import Slots
from oomctl.schemas.rows import Row


@dataclass(frozen=True)
class Death:
    """A process that is gone.

    Attributes:
        header: Of its ring, as it left it.
        last_us: When its last record was written, None where there was none.
        pid: As it was seen from here; None where it was never seen alive.
    """

    header: Header
    last_us: int | None
    pid: int | None = None


@dataclass
class Drained:
    """What one round brought.

    Attributes:
        rows: In order within each ring.
        slots: Records that are kept as they are.
        shown: Rows of those that may be signs.
        at: How far each ring was read.
        losses: (reason, count, detail).
        notes: (state, detail) of what a collector row should tell.
        deaths: Of processes whose rings were read to their end.
        full: A ring has more to give at once.
    """

    rows: list[Row] = field(default_factory=list)
    slots: list[Slots] = field(default_factory=list)
    shown: list[Row] = field(default_factory=list)
    at: State = field(default_factory=dict)
    losses: list[tuple[str, int, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    full: bool = False
