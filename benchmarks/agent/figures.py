"""How sure a figure is."""

import random
import statistics
from collections.abc import Sequence

ROUNDS = 4000


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of their median, by bootstrap."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(ROUNDS))
    return medians[ROUNDS // 40], medians[-ROUNDS // 40]


def share(values: Sequence[float], part: float) -> float:
    """The value below which that part of them lies."""
    return sorted(values)[int(len(values) * part)]
