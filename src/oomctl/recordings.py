"""Recordings as inputs: the folder that `oomctl attach` writes, also while it is written, and single live files of it."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, cast

from oomctl.collectors.recorder.contents import load, streams_of
from oomctl.collectors.recorder.folder import Folder
from oomctl.collectors.recorder.live import LiveReader
from oomctl.inputs import Report, label
from oomctl.schemas import storage, verdict
from oomctl.schemas.errors import OomctlError

if TYPE_CHECKING:
    import duckdb

_STREAMS = "SELECT DISTINCT stream FROM events"
_ENGINES = "SELECT DISTINCT value FROM manifest WHERE section = 'engine' AND key = 'name' AND stream IN (SELECT unnest(?))"


def load_recording(connection: "duckdb.DuckDBPyConnection", path: str, report: Report) -> verdict.Input:
    """Load a recording's folder.

    Args:
        connection: With the event table.
        path: The folder.
        report: Called with what could not be read, or only in part.

    Raises:
        OomctlError: If it holds no row, or one of a stream that was read from another input.
    """
    folder = Folder(Path(path))
    before = _streams(connection)
    if before and (twice := sorted(before & streams_of(folder))):
        raise OomctlError(
            f"stream {twice[0]} was already read from another input ({label(path)})", "read the two one at a time"
        )
    rows = load(connection, folder, report)
    if not rows:
        raise OomctlError(f"a recording without a row ({label(path)})", "wait until something was recorded")
    found = _streams(connection) - before
    size = sum(file.stat().st_size for file in (*folder.live.iterdir(), *folder.hours.glob("*.parquet")))
    return verdict.Input(path=label(path), format="live", bytes=size, rows=rows, engines=_engines(connection, found))


def load_live_file(
    connection: "duckdb.DuckDBPyConnection", name: str, file: io.BufferedReader, size: int, report: Report
) -> verdict.Input:
    """Load one live file of a recording.

    Raises:
        OomctlError: If it is damaged at its beginning, or holds no row.
    """
    before = _streams(connection)
    reader = LiveReader(file, name)
    frames = list(reader.frames())
    if twice := sorted(before & {row["stream"] for frame in frames for row in frame.rows}):
        raise OomctlError(f"stream {twice[0]} was already read from another input ({name})", "read the two one at a time")
    rows = storage.load_rows(connection, (row for frame in frames for row in frame.rows))
    if reader.torn_bytes:
        report(OomctlError(f"{name}: {reader.torn_bytes} bytes at its end are no whole frame; read what came before"))
    if not rows:
        raise OomctlError(f"a live file without a row ({name})", "give the folder that it lies in")
    engines = _engines(connection, _streams(connection) - before)
    return verdict.Input(path=name, format="live", bytes=size, rows=rows, engines=engines)


def _streams(connection: "duckdb.DuckDBPyConnection") -> set[str]:
    return {cast(str, row[0]) for row in connection.execute(_STREAMS).fetchall()}


def _engines(connection: "duckdb.DuckDBPyConnection", streams: set[str]) -> tuple[str, ...]:
    return tuple(sorted(row[0] for row in connection.execute(_ENGINES, [sorted(streams)]).fetchall()))
