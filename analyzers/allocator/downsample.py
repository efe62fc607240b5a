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
    return [
        Span(part.start, part.stop - 1, min(values[part.start : part.stop]), max(values[part.start : part.stop]))
        for part in parts(len(values), spans)
    ]


def parts(length: int, spans: int) -> list[range]:
    """The places of so many values in so many spans at most, of nearly equal length; none is empty."""
    edges = (length * n // spans for n in range(spans + 1))
    return [range(first, end) for first, end in itertools.pairwise(edges) if end > first]
