"""Long columns made short for a drawing, without losing an extreme."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Events first to last, and the least and largest value among them."""

    first: int
    last: int
    least: int
    largest: int


def envelope(values: Sequence[int], spans: int) -> list[Span]:
    """So many spans at most, of nearly equal length, that hold all values: no peak and no dip is lost.

    Args:
        values: One an event.
        spans: How many the drawing can show.
    """
    length = len(values)
    edges = [length * n // spans for n in range(spans + 1)]
    return [
        Span(first, end - 1, min(values[first:end]), max(values[first:end]))
        for first, end in itertools.pairwise(edges)
        if end > first
    ]
