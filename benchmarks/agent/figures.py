"""A figure with its limit, and how sure it is."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

ROUNDS = 4000


@dataclass(frozen=True)
class Figure:
    """What was measured.

    Attributes:
        name: What it is.
        value: The figure.
        unit: Its unit; empty for a ratio.
        limit: What it has to keep; None where it only informs.
        at_least: The limit is the smallest that will do, not the largest.
        note: How it came about.
    """

    name: str
    value: float
    unit: str = ""
    limit: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def missed(self) -> bool:
        """Whether it has a limit and does not keep it."""
        if self.limit is None:
            return False
        return self.value < self.limit if self.at_least else self.value > self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"{'>=' if self.at_least else '<='} {self.limit:g}{' MISSED' * self.missed}"
        return f"{self.name:<44} {self.value:>9.4g} {self.unit:<3} {limit:<15} {self.note}"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of their median, by bootstrap."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(ROUNDS))
    return medians[ROUNDS // 40], medians[-ROUNDS // 40]


def share(values: Sequence[float], part: float) -> float:
    """The value below which that part of them lies."""
    return sorted(values)[int(len(values) * part)]
