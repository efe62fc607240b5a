"""Quantiles as every part of capacity states them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]


def quantile(values: Values, share: float, weights: Values | None = None) -> float | None:
    """A quantile, linear between neighbours (type 7); None of no values.

    With weights, the least value that at least this share of the weight does not exceed: neighbours of a sample are too far
    apart to draw a line between them.

    Args:
        values: Shape (n,).
        share: 0 to 1.
        weights: What each counts, shape (n,); None: 1.
    """
    found = quantiles(values, (share,), weights)
    return found[0]


def quantiles(values: Values, shares: Sequence[float], weights: Values | None = None) -> list[float | None]:
    """Several quantiles of the same values: as `quantile`, sorted once."""
    if not len(values):
        return [None] * len(shares)
    if weights is None:
        return [float(value) for value in np.quantile(values, shares)]
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order], dtype=np.float64)
    places = np.searchsorted(total, np.asarray(shares) * total[-1])
    return [float(value) for value in values[order][np.minimum(places, len(values) - 1)]]
