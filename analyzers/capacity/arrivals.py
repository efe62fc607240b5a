"""How fast and how unevenly requests come."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WINDOWS_S = (1, 10, 60)
STEPS_PER_WINDOW = 3
"""A window is told of from so many steps of quantised times on: shorter ones hold whole batches or nothing."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Arrivals counted in windows of one length, whole ones only.

    Attributes:
        seconds: Length of a window.
        dispersion: Variance of the counts over their mean (index of dispersion): 1 of a Poisson process.
        peak_to_mean: Largest count over the mean.
    """

    seconds: int
    dispersion: float
    peak_to_mean: float


def rate_per_s(arrival_s: npt.NDArray[np.float64], weight: float) -> float | None:
    """Requests a second, from the first to the last; None where they take no time.

    Args:
        arrival_s: In order, shape (requests,).
        weight: How many requests they stand for.
    """
    span_s = float(arrival_s[-1] - arrival_s[0]) if len(arrival_s) > 1 else 0.0
    return weight / span_s if span_s > 0 else None


def gap_variation(arrival_s: npt.NDArray[np.float64], step_s: float | None) -> float | None:
    """Standard deviation of the gaps over their mean (CV): 1 of a Poisson process; None where times are quantised.

    Args:
        arrival_s: In order, shape (requests,).
        step_s: In which arrivals are told, or None.
    """
    gaps = np.diff(arrival_s)
    return float(gaps.std() / gaps.mean()) if len(gaps) > 1 and step_s is None and gaps.mean() > 0 else None


def windows(
    arrival_s: npt.NDArray[np.float64], step_s: float | None, lengths_s: Sequence[int] = WINDOWS_S
) -> list[Windows]:
    """Counts in windows of some lengths. Left out: those too short for the steps of the times, or fewer than two.

    Args:
        arrival_s: In order, shape (requests,).
        step_s: In which arrivals are told, or None.
        lengths_s: Of the windows.
    """
    found = []
    since = arrival_s - arrival_s[0]
    for seconds in lengths_s:
        whole = int(since[-1] // seconds)
        if whole < 2 or (step_s is not None and seconds < STEPS_PER_WINDOW * step_s):
            continue
        places = (since[since < whole * seconds] // seconds).astype(np.int64)
        # Windows without an arrival are not laid out: a stray time may be years away.
        counts = np.unique(places, return_counts=True)[1].astype(np.float64)
        mean = counts.sum() / whole
        variance = (np.square(counts - mean).sum() + (whole - len(counts)) * mean**2) / whole
        found.append(Windows(seconds, float(variance / mean), float(counts.max() / mean)))
    return found
