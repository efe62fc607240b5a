"""A page of Prometheus text as samples. The grammar is prometheus-client's; the limits and the recovery are ours."""

import math
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

MAX_SAMPLES = 100_000
MAX_LINE_CHARS = 65_536
PARSER_ERRORS = (ValueError, KeyError, IndexError, AttributeError)
"""What prometheus-client raises at a line that is none."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the page.

    Attributes:
        name: As on the wire: a counter's ends in `_total`.
        labels: Its labels.
        value: Finite.
        type: counter, gauge, histogram, summary, untyped, as the page declares it.
    """

    name: str
    labels: dict[str, str]
    value: float
    type: str


@dataclass
class Page:
    """What a page holds.

    Attributes:
        samples: In the page's order.
        skipped: Reason to count, of lines that hold no sample one can use.
    """

    samples: list[Sample]
    skipped: dict[str, int]


def parse(text: str) -> Page:
    """Read a page; a line that is no sample costs only itself.

    Args:
        text: The body, in Prometheus' text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/).

    Returns:
        Its samples; NaN and infinities are counted as skipped: they say that nothing was observed.
    """
    skipped: dict[str, int] = {}
    try:
        found = _samples(text)
    except PARSER_ERRORS:
        # The parser gives up a whole page for one line, so each is tried alone first. Rare, so it may cost double.
        lines = [line for line in text.split("\n") if _is_good(line)]
        skipped["not a sample"] = text.count("\n") + 1 - len(lines)
        try:
            found = _samples("\n".join(lines))
        except PARSER_ERRORS:
            return Page([], {"not a page of metrics": 1})
    samples = [sample for sample in found if math.isfinite(sample.value)]
    if len(samples) < len(found):
        skipped["not a finite number"] = len(found) - len(samples)
    if len(samples) > MAX_SAMPLES:
        skipped["more samples than are read"] = len(samples) - MAX_SAMPLES
    return Page(samples[:MAX_SAMPLES], skipped)


def _samples(text: str) -> list[Sample]:
    return [
        Sample(sample.name, sample.labels, sample.value, family.type)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def _is_good(line: str) -> bool:
    if len(line) > MAX_LINE_CHARS:
        return False
    try:
        for _ in text_string_to_metric_families(line):
            pass
    except PARSER_ERRORS:
        return False
    return True
