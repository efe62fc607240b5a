"""Where the figures of a line stand that its facts are made of, so that lines of the same shape need no pattern at all.

It is found by trial: the rules read copies of a line with other digits. Where each figure of each fact is one number of
the line, read in one way in all of them, and nothing else changes, the place of the number is all there is to know. Where a
rule does more (it adds, it compares, it tells nothing of a zero), there is no template, and the rules read every line.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from oomctl.collectors.artifacts.logs import registry
from oomctl.collectors.artifacts.logs.fact import Fact, integer
from oomctl.collectors.artifacts.logs.record import Record

Told = list[tuple[str, Fact]]
"""(engine, fact), as registry.facts tells of a line."""

_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_DIGIT = re.compile(r"\d")
MAX_NUMBERS = 64
MAX_DIGITS = 15
"""A longer number may be cut, or lose digits as a float."""
TRIALS = 8


def _percent(text: str) -> float:
    return float(text) / 100


_READINGS: tuple[Callable[[str], int | float], ...] = (int, integer, float, _percent)
"""The cheaper of two that agree stands first."""


@dataclass(frozen=True, slots=True)
class Part:
    """A fact of such a line.

    Attributes:
        kind: Its kind.
        pattern: Its fields in the order in which the rules tell them, as of one line.
        figures: (name, begin, end, how to read it) of those that differ, by their place in the whole line.
    """

    kind: str
    pattern: dict[str, object]
    figures: tuple[tuple[str, int, int, Callable[[str], int | float]], ...]

    def fields(self, raw: str) -> dict[str, object]:
        """The fields of a line."""
        found = self.pattern.copy()
        for name, begin, end, read in self.figures:
            found[name] = read(raw[begin:end])
        return found


def template(record: Record, told: Told) -> tuple[Part, ...] | None:
    """A part per fact; None where the figures alone do not tell them.

    Args:
        record: A line whose text ends it.
        told: What the rules tell of it.
    """
    places = [match.span() for match in _NUMBER.finditer(record.text)]
    lengths = [end - begin for begin, end in places]
    if not told or len({engine for engine, _ in told}) > 1 or registry.by_digits(record.text):
        return None
    if len(places) > MAX_NUMBERS or max(lengths, default=0) > MAX_DIGITS:
        return None
    trials = [(record.text, told)]
    for text in _copies(record.text):
        again = list(registry.facts(replace(record, raw=record.raw.removesuffix(record.text) + text, text=text)))
        if [(engine, fact.kind, [*fact.fields]) for engine, fact in again] != [
            (engine, fact.kind, [*fact.fields]) for engine, fact in told
        ]:
            return None
        trials.append((text, again))
    offset = len(record.raw) - len(record.text)
    parts = []
    for position, (_, fact) in enumerate(told):
        figures = []
        for name, value in fact.fields.items():
            values = [others[position][1].fields[name] for _, others in trials]
            if all(type(other) is type(value) and other == value for other in values):
                continue
            found = {
                (begin + offset, end + offset): read
                for begin, end in places
                for read in reversed(_READINGS)
                if all(_reads(read, text[begin:end], other) for (text, _), other in zip(trials, values, strict=True))
            }
            if len(found) != 1:
                return None
            figures += [(name, *place, read) for place, read in found.items()]
        parts.append(Part(fact.kind, dict(fact.fields), tuple(figures)))
    return tuple(parts)


def _copies(text: str) -> Iterator[str]:
    """The text with other digits: all zeros, all nines, and some at random."""
    yield _DIGIT.sub("0", text)
    yield _DIGIT.sub("9", text)
    rng = Random(len(text))
    for _ in range(TRIALS):
        yield _DIGIT.sub(lambda _: rng.choice("0123456789"), text)


def _reads(read: Callable[[str], int | float], text: str, value: object) -> bool:
    try:
        found = read(text)
    except ValueError:
        return False
    return type(found) is type(value) and found == value
