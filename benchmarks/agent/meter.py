"""The agent's wrappers, timed between their outside and their inside.

Around each wrapper stands a clock of the bench, and so does another around the engine's own method that the wrapper
calls. The difference is the agent's alone: what the engine does in between, and how that varies, is in neither. The
clocks' own cost is measured where it arises, in each step: after a model's step the caches are cold, and a clock that
takes 0.2 us in a loop takes some ten times that.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_clock = time.perf_counter_ns
_cpu_clock = time.thread_time_ns

ASIDE_RATIO = 1.02
"""A step whose clock ran so much longer than its CPU time was put aside for another process, maybe inside a hook."""
MIN_UNDISTURBED = 200


@dataclass(frozen=True)
class Step:
    """One step, in microseconds.

    Attributes:
        added_us: What the agent took in it.
        whole_us: CPU time of all of it.
    """

    added_us: float
    whole_us: float


class Meter:
    """Adds up what the wrappers of one thread take."""

    def __init__(self) -> None:
        self._spent_ns = 0
        self._pairs = 0
        self._empty = self.outside(self.inside(int))

    def inside(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A method of the engine's, before the agent wraps it."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            before = _clock()
            try:
                return original(*args, **kwargs)
            finally:
                self._spent_ns -= _clock() - before

        return timed

    def outside(self, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        """The same, as the agent wrapped it."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            before = _clock()
            try:
                return wrapper(*args, **kwargs)
            finally:
                self._spent_ns += _clock() - before
                self._pairs += 1

        return timed

    def run(self, arrive: Callable[[], object], step: Callable[[], object], count: int, warm_up: int = 60) -> list[Step]:
        """So many steps, each after its arrivals; of those only the undisturbed, if they are enough to speak of."""
        every: list[tuple[int, int, float]] = []
        undisturbed: list[tuple[int, int, float]] = []
        own_ns: list[int] = []
        for number in range(warm_up + count):
            self._spent_ns = self._pairs = 0
            clock, cpu = _clock(), _cpu_clock()
            arrive()
            step()
            spent_ns, pairs = self._spent_ns, self._pairs
            whole_ns = _cpu_clock() - cpu
            aside = _clock() - clock > ASIDE_RATIO * whole_ns
            self._spent_ns = 0
            self._empty()
            if number >= warm_up:
                own_ns.append(self._spent_ns)
                every.append((spent_ns, pairs, whole_ns))
                if not aside:
                    undisturbed.append(every[-1])
        own = statistics.median(own_ns)
        chosen = undisturbed if len(undisturbed) >= MIN_UNDISTURBED else every
        return [Step((spent - pairs * own) / 1000, whole / 1000) for spent, pairs, whole in chosen]
