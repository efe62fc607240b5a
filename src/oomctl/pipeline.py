"""From paths to a verdict: every input becomes rows of one event table, and the analyzers read that table."""

import io
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from oomctl.inputs import STDIN, Report, expand, label, unreadable
from oomctl.schemas import storage, verdict
from oomctl.schemas.errors import OomctlError

if TYPE_CHECKING:
    import duckdb

COMPRESSED = {b"\x1f\x8b": "gzip -dc", b"\x28\xb5\x2f\xfd": "zstd -dc", b"\xfd7zX": "xz -dc", b"BZh": "bzip2 -dc"}
PROBLEMS = {"empty": "empty file", "not text": "not a text log"}


@dataclass
class Loaded:
    """The event table of some inputs.

    Attributes:
        connection: Holds it; the caller closes it.
        inputs: What was read.
        skipped: What could not be read.
    """

    connection: "duckdb.DuckDBPyConnection"
    inputs: list[verdict.Input]
    skipped: list[OomctlError]


def open_inputs(paths: Sequence[str], warn: Report | None = None) -> Loaded:
    """Load logs and recordings into one event table.

    Args:
        paths: Files, globs, folders, or "-" for standard input; a path given twice is read once.
        warn: Called with each input that could not be read, where others could or several could not.

    Raises:
        OomctlError: If none could be read.
    """
    skipped: list[OomctlError] = []
    files = expand(paths, skipped.append)
    connection = storage.connect()
    inputs: list[verdict.Input] = []
    for path in files:
        try:
            inputs.append(_load(connection, path))
        except OomctlError as error:
            skipped.append(error)
    if not inputs and len(skipped) == 1:
        raise skipped[0]
    if warn is not None:
        for problem in skipped:
            warn(problem)
    if not inputs:
        raise OomctlError(f"none of the {len(skipped)} inputs could be read", "give at least one log or recording")
    return Loaded(connection, inputs, skipped)


def triage_paths(paths: Sequence[str], last: bool = False, warn: Report | None = None) -> verdict.Triage:
    """The verdict on some logs or recordings.

    Args:
        paths: As for `open_inputs`.
        last: Only the newest incarnation of a crash loop.
        warn: As for `open_inputs`.
    """
    loaded = open_inputs(paths, warn)
    try:
        from oomctl.analyzers.triage import triage

        return verdict.Triage(inputs=loaded.inputs, incidents=triage(loaded.connection, last=last))
    finally:
        loaded.connection.close()


def _load(connection: "duckdb.DuckDBPyConnection", path: str) -> verdict.Input:
    try:
        with _opened(path) as file:
            head = file.peek(len(storage.PARQUET_MAGIC))
            if head.startswith(storage.PARQUET_MAGIC):
                return _load_parquet(connection, path, file)
            for magic, tool in COMPRESSED.items():
                if head.startswith(magic):
                    raise OomctlError(f"compressed ({label(path)})", f"{tool} {label(path)} | oomctl triage -")
            return _load_log(connection, path, file)
    except OSError as error:
        raise unreadable(path, error) from error


def _load_log(connection: "duckdb.DuckDBPyConnection", path: str, file: BinaryIO) -> verdict.Input:
    from oomctl.collectors.artifacts.logs import read_log

    stream = label(path)
    _refuse_known(connection, "SELECT ?", stream, path)
    reading = read_log(file, stream)
    rows = storage.load_rows(connection, reading.rows)
    if reading.problem is not None:
        connection.execute("DELETE FROM events WHERE stream = ?", [stream])
        raise OomctlError(
            f"{PROBLEMS.get(reading.problem, reading.problem)} ({stream})",
            "give the engine's own output, as text, or a file that `oomctl import` wrote",
        )
    return verdict.Input(
        path=stream, format="log", bytes=reading.bytes, lines=reading.lines, rows=rows, engines=reading.engines
    )


def _load_parquet(connection: "duckdb.DuckDBPyConnection", path: str, file: BinaryIO) -> verdict.Input:
    with _on_disk(path, file) as place:
        _refuse_known(connection, "SELECT stream FROM read_parquet(?)", str(place), path)
        rows = storage.load_parquet(connection, place)
        engines = connection.execute(
            "SELECT DISTINCT value FROM manifest WHERE section = 'engine' AND key = 'name' "
            "AND stream IN (SELECT stream FROM read_parquet(?)) ORDER BY value",
            [str(place)],
        ).fetchall()
        return verdict.Input(
            path=label(path),
            format="parquet",
            bytes=place.stat().st_size,
            rows=rows,
            engines=tuple(str(row[0]) for row in engines),
        )


def _refuse_known(connection: "duckdb.DuckDBPyConnection", streams: str, parameter: str, path: str) -> None:
    """(stream, seq) names a row: two inputs with a stream of the same name would mix, and every count double."""
    import duckdb

    try:
        twice = connection.execute(f"SELECT min(stream) FROM events WHERE stream IN ({streams})", [parameter]).fetchone()
    except duckdb.Error:
        return  # not a recording of ours: loading it says so better
    if twice and twice[0] is not None:
        raise OomctlError(
            f"stream {twice[0]} was already read from another input ({label(path)})", "read the two one at a time"
        )


@contextmanager
def _opened(path: str) -> Iterator[io.BufferedReader]:
    if path == STDIN:
        yield cast(io.BufferedReader, sys.stdin.buffer)
    else:
        with Path(path).open("rb") as file:
            yield file


@contextmanager
def _on_disk(path: str, file: BinaryIO) -> Iterator[Path]:
    """Parquet is read from its end, so what comes through a pipe is put down first."""
    if path != STDIN and Path(path).is_file():
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="oomctl-") as folder:
        copy = Path(folder) / "stdin.parquet"
        with copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        yield copy
