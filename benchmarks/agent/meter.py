"""The agent's wrappers, timed between their outside and their inside.

Around each wrapper stands a clock of the bench, and so does another around the engine's own method that the wrapper
calls. The difference is the agent's alone: what the engine does in between, and how that varies, is in neither.

The clocks' own cost is in it too; after a model's step, when the caches are cold, it is many times what it is in a loop.
So it is measured where it arises: in blocks of steps with the agent paused and its wrappers gone, the same clocks stand
around the same methods, and what they show then, method by method, is taken off what they show with the agent.
"""

import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_clock = time.perf_counter_ns
_cpu_clock = time.thread_time_ns

ASIDE_RATIO = 1.02
"""A step whose clock ran so much longer than its CPU time was put aside for another process, maybe inside a hook."""
MIN_UNDISTURBED = 200
BLOCK_STEPS = 40


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
    """Adds up what the wrappers of one thread take.

    Args:
        hooks: The methods that the agent wraps, by the class that has them.
    """

    def __init__(self, hooks: Mapping[type, Sequence[str]]) -> None:
        self._spent_ns = 0
        self._calls: list[tuple[str, int]] = []
        self._hooks = hooks
        self._objects: list[Any] = []
        self._covered: list[tuple[Any, str, Any]] = []
        for cls, names in hooks.items():
            for name in names:
                setattr(cls, name, self._inside(getattr(cls, name)))

    def watch(self, *objects: Any) -> None:
        """Of these classes, which the agent has attached to."""
        self._objects += objects

    def _inside(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A method of the engine's, before the agent wraps it; the agent looks at its signature."""

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            before = _clock()
            try:
                return original(*args, **kwargs)
            finally:
                self._spent_ns -= _clock() - before

        return timed

    def _outside(self, name: str, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        """The same, as the agent wrapped it, or as it is without the agent."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            # One of them may be called by another.
            outer_ns, self._spent_ns = self._spent_ns, 0
            before = _clock()
            try:
                return wrapper(*args, **kwargs)
            finally:
                self._calls.append((name, self._spent_ns + _clock() - before))
                self._spent_ns = outer_ns

        return timed

    def _cover(self, active: bool) -> None:
        for target in self._objects:
            for name in self._hooks[type(target)]:
                wrapper = vars(target).get(name)
                assert not active or wrapper is not None, f"the agent has not wrapped {name}"
                self._covered.append((target, name, wrapper))
                bare = getattr(type(target), name).__get__(target)
                setattr(target, name, self._outside(name, wrapper if active else bare))

    def _uncover(self) -> None:
        for target, name, wrapper in self._covered:
            if wrapper is None:
                delattr(target, name)
            else:
                setattr(target, name, wrapper)
        self._covered.clear()

    def run(
        self, arrive: Callable[[], object], step: Callable[[], object], switch: Callable[[bool], None], count: int
    ) -> list[Step]:
        """So many steps with the agent, each after its arrivals, and as many without.

        Of those only the undisturbed, if they are enough to speak of.
        """
        found: dict[bool, list[_Raw]] = {False: [], True: []}
        for block in range(-1, count // BLOCK_STEPS):
            for active in (False, True) if block % 2 else (True, False):
                self._uncover()
                switch(active)
                # At this step it obeys; the next ones warm what is new.
                for _ in range(3):
                    arrive()
                    step()
                self._cover(active)
                for _ in range(BLOCK_STEPS):
                    calls: list[tuple[str, int]] = []
                    self._calls = calls
                    clock, cpu = _clock(), _cpu_clock()
                    arrive()
                    step()
                    whole_ns = _cpu_clock() - cpu
                    aside = _clock() - clock > ASIDE_RATIO * whole_ns
                    if block >= 0:
                        found[active].append(_Raw(calls, whole_ns, aside))
        self._uncover()
        own_ns = _medians(_undisturbed(found[False]))
        return [
            Step(sum(took_ns - own_ns.get(name, 0) for name, took_ns in step.calls) / 1000, step.whole_ns / 1000)
            for step in _undisturbed(found[True])
        ]


@dataclass(frozen=True)
class _Raw:
    """One step: what each call of a method took outside the engine's own, its CPU time, and whether it was put aside."""

    calls: list[tuple[str, int]]
    whole_ns: int
    aside: bool


def _medians(steps: list[_Raw]) -> dict[str, float]:
    by_name: dict[str, list[int]] = {}
    for step in steps:
        for name, took_ns in step.calls:
            by_name.setdefault(name, []).append(took_ns)
    return {name: statistics.median(found) for name, found in by_name.items()}


def _undisturbed(steps: list[_Raw]) -> list[_Raw]:
    chosen = [step for step in steps if not step.aside]
    return chosen if len(chosen) >= MIN_UNDISTURBED else steps
