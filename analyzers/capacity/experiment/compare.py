"""Two experiments side by side: what was asked otherwise, which steps ended otherwise, how the limits moved."""

from typing import Any

import msgspec

from oomctl.schemas.experiment import Experiment, Limits, Step

SCHEMA = "oomctl.experiment-diff/0"
SAME = 0.15
"""Rates that are nearer than this are no difference: about what repeated runs differ by."""
Pair = tuple[Any, Any]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of both; `change` is relative to the first, None where it is not known of both."""

    name: str
    before: float | int | None
    after: float | int | None
    change: float | None


class ExperimentDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What `capacity experiment diff --json` prints. Pairs are (first, second)."""

    schema: str = SCHEMA
    settings: dict[str, Pair]
    """Of the experiment, the engine and its arguments: only what differs."""
    steps: dict[str, Pair]
    """Status by step, where it differs."""
    breaks_first: Pair
    same_rate: bool | None
    """Whether the operating points are within SAME; None where one is missing."""
    limits: list[Moved]
    leaks: list[Moved]
    """Bytes per request of figures that grow in either."""


def diff(before: Experiment, after: Experiment) -> ExperimentDiff:
    """Compare two artifacts."""
    limits = [
        _moved(name, getattr(before.limits, name, None), getattr(after.limits, name, None))
        for name in Limits.__struct_fields__
    ]
    rate = next(one for one in limits if one.name == "rate_per_s")
    return ExperimentDiff(
        settings=_settings(before, after),
        steps={
            f"{number} {name}": (old, new)
            for number, name in _names(before, after).items()
            if (old := _status(before.step(number))) != (new := _status(after.step(number)))
        },
        breaks_first=(before.point and before.point.breaks_first, after.point and after.point.breaks_first),
        same_rate=None if rate.change is None else abs(rate.change) <= SAME,
        limits=limits,
        leaks=_leaks(before, after),
    )


def _settings(before: Experiment, after: Experiment) -> dict[str, Pair]:
    sides = [
        {
            **one.asked,
            "model": one.model,
            "engine": one.engine,
            "engine_version": one.engine_version,
            **{f"argument {name}": value for name, value in one.arguments.items()},
        }
        for one in (before, after)
    ]
    names = sorted(sides[0].keys() | sides[1].keys())
    return {name: pair for name in names if (pair := (sides[0].get(name), sides[1].get(name)))[0] != pair[1]}


def _names(before: Experiment, after: Experiment) -> dict[int, str]:
    return {step.number: step.name for one in (before, after) for step in one.steps}


def _status(step: Step | None) -> str | None:
    return None if step is None else step.status


def _leaks(before: Experiment, after: Experiment) -> list[Moved]:
    """By figure alone: a process has another number in each life. The steepest where several go by one name."""
    sides = []
    for one in (before, after):
        step = one.step(8)
        steepest: dict[str, float] = {}
        for leak in step.leaks if step is not None else ():
            if leak.grows:
                steepest[leak.figure] = max(steepest.get(leak.figure, 0.0), leak.slope_bytes_per_request)
        sides.append(steepest)
    return [_moved(name, sides[0].get(name), sides[1].get(name)) for name in sorted(sides[0].keys() | sides[1].keys())]


def _moved(name: str, before: float | int | None, after: float | int | None) -> Moved:
    change = after / before - 1 if before and after is not None else None
    return Moved(name=name, before=before, after=after, change=change)
