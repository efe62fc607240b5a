"""Where something that holds begins to break: by bisection, on a scale of ratios."""

from collections.abc import Callable
from math import sqrt

WIDEST = 64.0
"""A search goes so many times beyond its start and below it."""


def search(good: Callable[[float], bool], precision: float, widest: float = WIDEST) -> tuple[float | None, float | None]:
    """Find the edge.

    Args:
        good: Whether it holds at a scale; a larger scale is easier. Asked about 1 first, and never twice about one scale.
        precision: Of the answer, as a ratio.
        widest: How far from 1 is looked, as a ratio.

    Returns:
        (the highest scale at which it breaks, the lowest at which it holds), each None where none was found.
    """
    low, high = _bracket(good, widest)
    while low is not None and high is not None and high / low > 1 + precision:
        middle = sqrt(low * high)
        if good(middle):
            high = middle
        else:
            low = middle
    return low, high


def _bracket(good: Callable[[float], bool], widest: float) -> tuple[float | None, float | None]:
    scale = 1.0
    if good(scale):
        while scale > 1 / widest:
            if not good(scale / 2):
                return scale / 2, scale
            scale /= 2
        return None, scale
    while scale < widest:
        if good(scale * 2):
            return scale, scale * 2
        scale *= 2
    return scale, None
