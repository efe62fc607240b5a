"""Rows of a query as text, one function per format; each takes column names and plain values."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice, zip_longest
from typing import Any

from oomctl.cli.render.text import cells, escape, escape_md, fold, json_line, paint
from oomctl.cli.render.words import ASSUMED_YEAR, without_year

NARROW = 12
"""No column of text is folded below so many columns of the terminal."""
SIZED_ROWS = 1000
"""So many are looked at before the first is printed; a wider cell behind them is printed whole, out of line."""
_ASSUMED = re.compile(rf"{ASSUMED_YEAR}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{{1,6}})?Z")


def plain(value: Any) -> Any:
    """A value of DuckDB's as JSON holds it: times as ISO 8601 with Z, bytes as hex, whole decimals as integers."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            from datetime import UTC

            value = value.astimezone(UTC).replace(tzinfo=None)
        return value.isoformat() + "Z"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def cell(value: Any) -> str:
    """A plain value in one cell; a struct or list as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        import msgspec

        return msgspec.json.encode(value).decode()
    return str(value)


def readable(value: Any) -> str:
    """As `cell`, for people: a time of a log that names no year is shown without one."""
    if isinstance(value, str) and _ASSUMED.fullmatch(value):
        return without_year(value).rstrip("Z").replace("T", " ")
    return cell(value)


def rows_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """An array of objects, one to a line."""
    start = "["
    for line in rows_jsonl(columns, rows):
        yield f"{start}\n  {line.rstrip()}"
        start = ","
    yield "[]\n" if start == "[" else "\n]\n"


def rows_jsonl(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One object per line."""

    for row in rows:
        yield json_line(dict(zip(columns, row, strict=True)))


def rows_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Comma-separated, with a header; NULL is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    for fields in chain([columns], ([cell(value) for value in row] for row in rows)):
        writer.writerow(fields)
        yield target.getvalue()
        target.seek(0)
        target.truncate()


def rows_md(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A Markdown table."""
    yield f"| {' | '.join(map(escape_md, columns))} |\n|{'---|' * len(columns)}\n"
    for row in rows:
        yield f"| {' | '.join(escape_md(readable(value)) for value in row)} |\n"


def rows_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], width: int | None, colour: bool = False
) -> Iterator[str]:
    """An aligned table; numbers to the right. Nothing is left out: what is too long goes on in the next line.

    Args:
        columns: Names.
        rows: Plain values; the first SIZED_ROWS say how wide the columns are.
        width: Lines have to fit into it: texts are folded, and where that is not enough each row becomes a record
            of one line a value. None for as wide as it takes.
        colour: Bold header.
    """
    left = iter(rows)
    first = list(islice(left, SIZED_ROWS))
    texts = [_shown(row) for row in first]
    names = [escape(name) for name in columns]
    widths = [max(map(cells, column)) for column in zip(names, *texts, strict=True)]
    right = [
        any(value is not None for value in column)
        and all(value is None or re.fullmatch(r"int|float", type(value).__name__) for value in column)
        for column in ([row[index] for row in first] for index in range(len(columns)))
    ]
    shown = chain(texts, map(_shown, left))
    if width is not None and not _narrow(widths, right, width):
        yield from _records(names, list(shown), width, colour)
        return
    for line in _lines(names, widths, right):
        yield paint(line, "bold", colour) + "\n"
    yield "  ".join("-" * size for size in widths) + "\n"
    for row in shown:
        yield from (f"{line}\n" for line in _lines(row, widths, right, width is not None))


def _shown(row: Sequence[Any]) -> list[str]:
    return [escape(readable(value)) for value in row]


def _lines(texts: list[str], widths: list[int], right: list[bool], folded: bool = True) -> Iterator[str]:
    """The lines of one row: one, or as many as its longest folded cell has."""
    columns = [fold(text, size) if folded else [text] for text, size in zip(texts, widths, strict=True)]
    for parts in zip_longest(*columns, fillvalue=""):
        padded = []
        for text, size, to_right in zip(parts, widths, right, strict=True):
            gap = " " * (size - cells(text))
            padded.append(gap + text if to_right else text + gap)
        yield "  ".join(padded).rstrip()


def _records(names: list[str], texts: list[list[str]], width: int, colour: bool) -> Iterator[str]:
    """Each row's values one below the other, what all rows have in common once before them; what is NULL is left out."""
    margin = min(max(map(cells, names)), width // 3)
    common = [len(texts) > 1 and len(set(column)) == 1 for column in zip(*texts, strict=True)]
    parts = [("every row", [text if same else "" for text, same in zip(texts[0], common, strict=True)])] if texts else []
    parts += [
        (f"row {number}", ["" if same else text for text, same in zip(row, common, strict=True)])
        for number, row in enumerate(texts, 1)
    ]
    gap = ""
    for title, row in parts:
        if not any(row) and title == "every row":
            continue
        yield gap + paint(title, "bold", colour) + "\n"
        gap = "\n"
        for name, text in zip(names, row, strict=True):
            if text:
                yield from (f"{line}\n" for line in _lines([name, text], [margin, width - margin - 2], [False, False]))


def _narrow(widths: list[int], fixed: list[bool], width: int) -> bool:
    """Make the widest columns of text narrower until a line fits; False if it cannot."""
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    while excess > 0:
        size = max((size for size, numbers in zip(widths, fixed, strict=True) if not numbers), default=0)
        if size <= NARROW:
            return False
        widths[next(n for n, found in enumerate(widths) if found == size and not fixed[n])] -= 1
        excess -= 1
    return True
