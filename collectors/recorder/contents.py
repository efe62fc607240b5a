"""The rows of a recording, from segments and hours, into an event table; also while it is recorded."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from oomctl.collectors.recorder.folder import KEPT, Folder
from oomctl.collectors.recorder.live_reader import LiveReader
from oomctl.schemas import storage
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import Row

if TYPE_CHECKING:
    import duckdb

FREQUENT = (
    "step", "kv_pool", "request", "allocator", "device", "host", "process", "throughput", "metric", "kv_block", "transfer",
)  # fmt: skip
"""Kinds that come with every step or every second; all the others tell how the worker started and what failed."""
EVER_US = 1 << 60
FIRST_ROWS = 1000
"""Of each stream, kept whatever their kind: the worker's start."""
_KINDS = ", ".join(repr(kind) for kind in FREQUENT)
LASTING = f"(kind NOT IN ({_KINDS}) OR seq <= {FIRST_ROWS} OR coalesce(source = 'log', FALSE))"
"""SQL: rows that outlive their minutes. A log's are few, and its verdict needs them all."""

Report = Callable[[OomctlError], None]


def load(
    connection: "duckdb.DuckDBPyConnection",
    folder: Folder,
    report: Report,
    since_us: int | None = None,
    until_us: int | None = None,
    cut: storage.Cut | None = None,
) -> int:
    """Append a recording's rows to the event table.

    Args:
        connection: From `storage.connect`.
        folder: The recording's.
        report: Called with what could not be read, or only in part.
        since_us: Leave out what is older, in microseconds since 1970, but for rows that last.
        until_us: Leave out what is younger.
        cut: What is loaded of hours that are packed already.

    Returns:
        How many rows were added, or left out of those hours.
    """
    since, until = since_us if since_us is not None else -EVER_US, until_us if until_us is not None else EVER_US
    where = (
        f"WHERE ts IS NULL OR (ts <= make_timestamp({until}) AND ({LASTING} OR ts >= make_timestamp({since})))"
        if (since_us, until_us) != (None, None)
        else ""
    )
    count = 0
    with ExitStack() as stack:
        packed, segments = _opened(folder, stack)
        for path in [*packed, folder.hours / KEPT]:
            if path.name == KEPT and not path.exists():
                continue
            try:
                # A kill may leave a row both in an hour and in what was kept of it.
                count += storage.load_parquet(connection, path, where=where, once=path.name == KEPT, cut=cut)
            except OomctlError as error:
                report(error)
        return count + storage.load_rows(connection, _within(segment_rows(segments, report), since, until))


def segment_rows(files: Sequence[BinaryIO], report: Report) -> Iterator[Row]:
    """The rows of segments, in order; what is torn at the end of any but the last, and what is no row, is reported."""
    for file in files:
        try:
            reader = LiveReader(file, file.name)
            yield from reader.rows()
        except OomctlError as error:
            report(error)
            continue
        if reader.odd_rows:
            report(odd_rows(file.name, reader))
        if reader.torn_bytes and file is not files[-1]:
            what = f"{file.name}: {reader.torn_bytes} bytes at its end are no whole frame; read what came before"
            report(OomctlError(what))


def odd_rows(name: str, reader: LiveReader) -> OomctlError:
    """What to tell of a live file that holds what is no row."""
    return OomctlError(f"{name}: {reader.odd_rows:,} parts of it are no rows; read the others", "it was not made by oomctl")


def _opened(folder: Folder, stack: ExitStack) -> tuple[list[Path], list[BinaryIO]]:
    """The hours, and the segments that they do not cover, opened: the recorder may pack and remove them meanwhile."""
    for _ in range(10):
        packed = folder.packed()
        try:
            segments: list[BinaryIO] = [stack.enter_context(path.open("rb")) for path in folder.segments()]
        except FileNotFoundError:
            continue
        if folder.packed() == packed:
            break
    return [path for _, _, path in packed], segments


def streams_of(folder: Folder) -> set[str]:
    """The streams of a recording."""
    import duckdb

    with ExitStack() as stack:
        packed, segments = _opened(folder, stack)
        found = {row["stream"] for row in segment_rows(segments, lambda error: None)}
    for path in packed:
        try:
            with duckdb.connect() as connection:
                rows = connection.execute("SELECT DISTINCT stream FROM read_parquet(?)", [str(path)]).fetchall()
        except duckdb.Error:
            continue  # told when it is loaded
        found |= {row[0] for row in rows}
    return found


def _within(rows: Iterable[Row], since_us: int, until_us: int) -> Iterator[Row]:
    """What LASTING and the instants say in SQL."""
    for row in rows:
        ts = row.get("ts")
        if ts is None or (
            ts <= until_us
            and (ts >= since_us or row["kind"] not in FREQUENT or row["seq"] <= FIRST_ROWS or row.get("source") == "log")
        ):
            yield row
