"""Long series made short for a drawing, without losing an extreme."""

from collections.abc import Hashable, Iterable

from oomctl.analyzers.allocator.downsample import parts
from oomctl.report.answers import Record

POINTS = 400
"""Of one series: two for each of the spans that a chart of a page's width can show."""
SERIES = 120
"""Of one chart: more lines than that cannot be told apart."""


def thin(records: Iterable[Record], series: str, value: str) -> list[Record]:
    """At most POINTS records of each series: the first, the last, and the least and largest value of each span between.

    Args:
        records: In order of time within each series.
        series: The column that names the line a record belongs to; of more than SERIES lines the first are kept.
        value: The column that is drawn.
    """
    lines: dict[Hashable, list[Record]] = {}
    for record in records:
        lines.setdefault(record[series], []).append(record)
    return [kept for line in list(lines.values())[:SERIES] for kept in _thinned(line, value)]


def _thinned(line: list[Record], value: str) -> list[Record]:
    if len(line) <= POINTS:
        return line
    kept = {0, len(line) - 1}
    for span in parts(len(line), POINTS // 2 - 1):
        kept |= {min(span, key=lambda at: line[at][value]), max(span, key=lambda at: line[at][value])}
    return [line[at] for at in sorted(kept)]
