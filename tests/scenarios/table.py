"""A scenario as an event table: few deciding rows, and as many background rows as asked for, made as columns."""

from functools import cache
from typing import Any

import polars as pl
import pyarrow as pa

from oomctl.schemas.arrow import events_schema
from tests.scenarios.entries import Entry
from tests.scenarios.filler import CYCLE_US, LINES_PER_CYCLE, cycles, filler, slots
from tests.scenarios.stage import perform
from tests.scenarios.writer import Writer

SCHEMA = events_schema()
PIECE_ROWS = 65_536


def build(
    name: str,
    *,
    seed: int = 0,
    ranks: int = 1,
    rows: int = 200,
    device_bytes: int = 80 * 2**30,
    engine: str | None = None,
) -> pl.DataFrame:
    """A scenario as a frame; see `build_arrow`, which is the one for millions of rows."""
    frame = pl.from_arrow(build_arrow(name, seed=seed, ranks=ranks, rows=rows, device_bytes=device_bytes, engine=engine))
    assert isinstance(frame, pl.DataFrame)
    return frame


def build_arrow(
    name: str,
    *,
    seed: int = 0,
    ranks: int = 1,
    rows: int = 200,
    device_bytes: int = 80 * 2**30,
    engine: str | None = None,
) -> pa.Table:
    """Build a scenario's event table.

    Args:
        name: Of the catalogue.
        seed: Varies figures, names and which corroborating facts are told, never the label.
        ranks: 1 to 8 tensor-parallel workers.
        rows: Rows in all; where the deciding ones are more, those alone.
        device_bytes: Capacity of a device; all byte figures scale with it.
        engine: vllm or sglang; None, or one that cannot show the scenario, gives its usual engine.

    Returns:
        All columns of the event table, as `storage.load_relation` takes them. The rows lie in blocks of one kind:
        `seq` orders them, not their position. Columns of other kinds are null and share one buffer, so that ten million
        rows stay small.
    """
    writer = perform(name, seed=seed, ranks=ranks, device_bytes=device_bytes, engine=engine)
    script = writer.script
    deciding = sum(len(entry.facts) + entry.kept for entry in script.entries)
    background = max(0, rows - deciding)
    before, after = script.entries[: script.fill_at], script.entries[script.fill_at :]
    stream = f"scenario:{name}"
    first = _rows(writer, stream, before, 0, 1, 0)
    seq, line, turns = len(first), len(before) + 1, cycles(background)
    last = _rows(writer, stream, after, seq + background, line + turns * LINES_PER_CYCLE, turns * CYCLE_US)
    fill_us = before[-1].at_us if before else 0
    incarnation = str(before[-1].incarnation if before else 1)
    parts = [pa.Table.from_pylist(first, schema=SCHEMA)]
    for slot, kind in enumerate(slots(script.background)):
        part = filler(writer, slot, background, seq, line, fill_us)
        if part.height:
            parts.append(_block(part, kind, stream, incarnation, writer.figures.tells_time))
    parts.append(pa.Table.from_pylist(last, schema=SCHEMA))
    return pa.concat_tables(parts)


def _rows(writer: Writer, stream: str, entries: list[Entry], seq: int, line: int, shift_us: int) -> list[dict[str, Any]]:
    """The rows of some lines: each line's facts, then the line itself, all under its number."""
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(entries, line):
        ts = writer.figures.start_us + entry.at_us + shift_us
        unstamped = entry.process in ("bare", "system") or (writer.engine == "vllm" and not entry.where)
        unknown = unstamped or not writer.figures.tells_time
        common = {
            "ts": None if unknown else ts // 1_000_000 * 1_000_000,
            "ts_quality": "none" if unknown else "local",
            "stream": stream,
            "line": number,
            "worker": "w0",
            "incarnation": str(entry.incarnation),
            "rank": entry.rank,
            "rank_name": writer.printed_by(entry),
            "device_id": entry.rank,
            "source": "log",
            "quality": "measured",
        }
        facts = [(fact.kind, fact.fields) for fact in entry.facts]
        if entry.kept:
            level = entry.level if entry.level in ("DEBUG", "INFO", "WARNING", "ERROR") else None
            logger = entry.where.lstrip("~") or None
            text = writer.line(entry, ts)
            facts.append(("log", {"file": f"{stream}.log", "level": level, "logger": logger, "text": text}))
        rows.extend(common | {"seq": seq + len(rows), "kind": kind, kind: fields} for kind, fields in facts)
    return rows


def _block(part: pl.DataFrame, kind: str, stream: str, incarnation: str, tells_time: bool) -> pa.Table:
    """Background rows of one kind under the event table's columns."""
    count = part.height
    source = part.to_arrow()
    same = {
        "ts_quality": "local" if tells_time else "none",
        "stream": stream,
        "worker": "w0",
        "incarnation": incarnation,
        "source": "log",
        "quality": "measured",
        "kind": kind,
    }
    columns: list[Any] = []
    for field in SCHEMA:
        if field.name in same:
            columns.append(_same(same[field.name], field.type, count))
        elif field.name == kind:
            columns.append(_struct(source, kind, field.type, count))
        elif field.name in source.column_names and (field.name != "ts" or tells_time):
            columns.append(_whole(source, field.name, field.type))
        else:
            columns.append(_same(None, field.type, count))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@cache
def _piece(text: str | None, wanted: Any) -> Any:
    return pa.nulls(PIECE_ROWS, wanted) if text is None else pa.repeat(pa.scalar(text, wanted), PIECE_ROWS)


def _same(text: str | None, wanted: Any, count: int) -> Any:
    """A column of one value: one piece, over and over, so that it costs no memory."""
    piece = _piece(text, wanted)
    return pa.chunked_array([piece] * (count // PIECE_ROWS) + [piece.slice(0, count % PIECE_ROWS)], wanted)


def _whole(source: Any, name: str, wanted: Any) -> Any:
    return source.column(name).cast(wanted).combine_chunks()


def _struct(source: Any, kind: str, wanted: Any, count: int) -> Any:
    """The kind's struct column: the fields that the filler has, the others null."""
    members = [
        _whole(source, f"{kind}.{field.name}", field.type)
        if f"{kind}.{field.name}" in source.column_names
        else pa.nulls(count, field.type)
        for field in wanted
    ]
    return pa.StructArray.from_arrays(members, fields=list(wanted))
