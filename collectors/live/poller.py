"""What the pollers of device drivers have in common: pace, calls that hang, devices that fail, states told once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from oomctl.collectors.live.background import Call
from oomctl.collectors.live.batch import Batch, Standing
from oomctl.collectors.live.stream import Stream

MEMORY_S = 1.0
PROCESSES_S = 10.0
BUSY_RATIO = 0.005
"""Share of the time that the driver may spend on us; slower calls are made less often."""
HANG_S = 10.0


@dataclass
class Reading:
    """What one round of calls gave.

    Attributes:
        found: (device's number as the worker counts, kind, fields).
        errors: Device to what the driver said.
        lost: Devices that fell off the bus.
        memory_s: How long the memory calls took.
        processes_s: How long the process lists took; None if they were not asked for.
    """

    found: list[tuple[int | None, str, dict[str, Any]]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    memory_s: float = 0.0
    processes_s: float | None = None


class DriverPoller(Standing, ABC):
    """Polls a driver for one worker.

    Args:
        name: Of the source.
        common: The common columns: node, worker, incarnation.
        clock: `monotonic_s()` and `wall_us()`.
        errors: Exception types that the driver's module raises.

    Attributes:
        state: "", then ok, failed, absent (no driver: it is not asked again) or hangs.
    """

    def __init__(self, name: str, common: dict[str, Any], clock: Any, errors: type[Exception]) -> None:
        super().__init__()
        self.name = name
        self.stream = Stream(name, name, common)
        self._clock = clock
        self._driver_error = errors
        self._running: Call[Reading] | None = None
        self._begun_s = 0.0
        self._memory_s = self._processes_s = clock.monotonic_s()
        self._lost: set[str] = set()
        self._errors: dict[str, str] = {}

    def poll(self) -> Batch:
        """What came since the last call; begins a round of calls when one is due. Never waits."""
        batch = Batch()
        now_s = self._clock.monotonic_s()
        if self._running is not None:
            if not self._running.done:
                if now_s - self._begun_s >= HANG_S:
                    self._turn("hangs", f"{self.name} has not answered for {HANG_S:.0f} s", batch)
                return batch
            running, self._running = self._running, None
            self._take(running, batch, now_s)
        if self.state != "absent" and now_s >= self._memory_s:
            with_processes = now_s >= self._processes_s
            self._begun_s = now_s
            self._running = Call(partial(self._read, with_processes), f"oomctl-{self.name}")
        return batch

    def close(self) -> None:
        """Forget a call that runs; it ends by itself, or never, and nobody waits for it."""
        self._running = None

    @abstractmethod
    def _read(self, with_processes: bool) -> Reading:
        """In a thread of its own: ask the driver."""

    def _absent(self, error: Exception) -> bool:
        """Whether an error means that there is no such driver here."""
        return False

    def _take(self, running: Call[Reading], batch: Batch, now_s: float) -> None:
        try:
            reading = running.result()
        except self._driver_error as error:
            self._turn("absent" if self._absent(error) else "failed", f"{self.name}: {error}"[:300], batch)
            self._memory_s = now_s + PROCESSES_S
            return
        ts = self._clock.wall_us()
        batch.rows += [self.stream.row(ts, kind, fields, {"device_id": number}) for number, kind, fields in reading.found]
        self._lost = reading.lost
        self._memory_s = now_s + max(MEMORY_S, reading.memory_s / BUSY_RATIO)
        if reading.processes_s is not None:
            self._processes_s = now_s + max(PROCESSES_S, reading.processes_s / BUSY_RATIO)
        if reading.errors != self._errors and reading.errors:
            told = "; ".join(f"{device}: {why}" for device, why in sorted(reading.errors.items()))
            batch.notes.append(("degraded", f"{self.name}: {told}"[:500]))
        self._errors = reading.errors
        self._turn("ok", f"{self.name} answers", batch)
