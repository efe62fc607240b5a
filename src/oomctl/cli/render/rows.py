"""Rows of a query as text, one function per format; each takes column names and plain values."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from textwrap import wrap
from typing import Any

from oomctl.cli.render.text import cells, cut, escape, escape_json, escape_md, paint
from oomctl.cli.render.words import ASSUMED_YEAR, without_year

NARROW = 12
"""No column is cut below so many columns of the terminal."""
MOST_LINES = 6
"""Lines that a value may take where each row is printed as a record."""
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
    import msgspec

    for row in rows:
        yield escape_json(msgspec.json.encode(dict(zip(columns, row, strict=True))).decode()) + "\n"


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
    columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None, colour: bool = False
) -> Iterator[str]:
    """An aligned table; numbers to the right. Where a line cannot fit, each row is a record of one line a value instead.

    Args:
        columns: Names.
        rows: Plain values.
        width: Cut the widest columns until a line fits; None to leave all whole.
        colour: Bold header.
    """
    texts = [[escape(readable(value)) for value in row] for row in rows]
    names = [escape(name) for name in columns]
    widths = [max(map(cells, column)) for column in zip(names, *texts, strict=True)]
    if width is not None and not _narrow(widths, width) and texts:
        yield from _records(names, texts, width, colour)
        return
    right = [
        any(value is not None for value in column)
        and all(value is None or re.fullmatch(r"int|float", type(value).__name__) for value in column)
        for column in ([row[index] for row in rows] for index in range(len(columns)))
    ]
    yield paint(_line(names, widths, right), "bold", colour) + "\n"
    yield "  ".join("-" * size for size in widths) + "\n"
    for row in texts:
        yield _line(row, widths, right) + "\n"


def _line(texts: list[str], widths: list[int], right: list[bool]) -> str:
    padded = []
    for text, size, to_right in zip(texts, widths, right, strict=True):
        text = cut(text, size)
        gap = " " * (size - cells(text))
        padded.append(gap + text if to_right else text + gap)
    return "  ".join(padded).rstrip()


def _records(names: list[str], texts: list[list[str]], width: int, colour: bool) -> Iterator[str]:
    """Each row's values one below the other, what all rows have in common once before them; what is NULL is left out."""
    margin = min(max(map(cells, names)), width // 3)
    room = max(width - margin - 2, NARROW)
    common = [len(texts) > 1 and len(set(column)) == 1 for column in zip(*texts, strict=True)]
    parts = [("every row", [text if same else "" for text, same in zip(texts[0], common, strict=True)])]
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
                first, *more = wrap(cut(text, room * MOST_LINES), room, break_on_hyphens=False) or [""]
                name = cut(name, margin)
                yield f"{name}{' ' * (margin - cells(name))}  {first}\n"
                yield from (f"{' ' * margin}  {line}\n" for line in more)


def _narrow(widths: list[int], width: int) -> bool:
    """Cut the widest columns until all fit; False where they do not."""
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    while excess > 0 and max(widths) > NARROW:
        widest = widths.index(max(widths))
        second = max([size for size in widths if size < widths[widest]], default=0)
        step = min(excess, widths[widest] - max(second, NARROW, 1)) or 1
        widths[widest] -= step
        excess -= step
    return excess <= 0
