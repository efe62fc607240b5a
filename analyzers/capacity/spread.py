"""Quantiles of values as the reports of capacity hold them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from oomctl.analyzers.capacity.active import Levels
from oomctl.analyzers.capacity.quantiles import quantiles
from oomctl.schemas.cohorts import Spread

SHARES = (0.5, 0.9, 0.95, 0.99, 1.0)
NAMES = ("p50", "p90", "p95", "p99", "max")
Values = npt.NDArray[Any]


def spread(values: Values, weights: Values | None = None) -> Spread:
    """Of some values.

    Args:
        values: Shape (n,).
        weights: What each counts, shape (n,); None: 1.
    """
    if not len(values):
        return Spread(count=0)
    mean = float(np.average(values, weights=weights))
    return Spread(count=len(values), mean=mean, **dict(zip(NAMES, quantiles(values, SHARES, weights), strict=True)))


def spread_over_time(level: Levels) -> Spread:
    """Of a level, by share of time."""
    if not len(level.values) or not level.seconds.sum():
        return Spread(count=0)
    mean = float(np.average(level.values, weights=level.seconds))
    return Spread(count=len(level.values), mean=mean, **dict(zip(NAMES, level.quantiles(SHARES), strict=True)))
