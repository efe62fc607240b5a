"""A page of Prometheus text as samples. The grammar is prometheus-client's; the limits and the recovery are ours."""

import math
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

MAX_SAMPLES = 30_000
"""A page of sixteen engines has 8,000."""
MAX_LINES = 2 * MAX_SAMPLES
"""With what declares them."""
MAX_LINE_CHARS = 8_192
"""The parser's time grows with the square of a line's quotes; the longest that an engine prints are of 2,000."""
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
    lines = text.split("\n", MAX_LINES)  # no more, for a line of a page as large as is read takes twice its own size
    more = lines.pop().count("\n") + 1 if len(lines) > MAX_LINES else 0
    short = [line for line in lines if len(line) <= MAX_LINE_CHARS]
    if len(short) < len(lines):
        skipped["longer than is read"] = len(lines) - len(short)
    sampled = [at for at, line in enumerate(short) if line and not line.startswith("#")]
    if len(sampled) > MAX_SAMPLES:
        more += len(sampled) - MAX_SAMPLES
        del short[sampled[MAX_SAMPLES] :]
    found = _samples(short)
    if found is None:
        # The parser gives up a whole page for one line, so each is tried alone first. Rare, so it may cost double.
        good = [line for line in short if _is_good(line)]
        skipped["not a sample"] = len(short) - len(good)
        found = _samples(good)
        if found is None:
            return Page([], {"not a page of metrics": 1})
    samples = [sample for sample in found if math.isfinite(sample.value)]
    if len(samples) < len(found):
        skipped["not a finite number"] = len(found) - len(samples)
    if more:
        skipped["more samples than are read"] = more
    return Page(samples, skipped)


def _samples(lines: list[str]) -> list[Sample] | None:
    """Those of all lines; None where one of them is none."""
    found: list[Sample] = []
    try:
        for family in text_string_to_metric_families("\n".join(lines)):
            found += [Sample(one.name, one.labels, _float(one.value), family.type) for one in family.samples]
    except PARSER_ERRORS:
        return None
    return found


def _float(value: float) -> float:
    """Of digits alone the parser makes an int, and of four hundred of them one that is no float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_good(line: str) -> bool:
    try:
        for _ in text_string_to_metric_families(line):
            pass
    except PARSER_ERRORS:
        return False
    return True
