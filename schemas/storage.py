"""The event table on disk and in DuckDB: loading rows, writing and reading Parquet, the version gate."""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from oomctl.schemas import ddl
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.events import COMMON_NAMES, SCHEMA_VERSION, SORT_KEY
from oomctl.schemas.rows import Row

if TYPE_CHECKING:
    import duckdb

VERSION_KEY = "oomctl.schema_version"
WRITER_KEY = "oomctl.writer"
INCIDENT_KEY = "oomctl.incident_id"
PARQUET_MAGIC = b"PAR1"
NEEDED = ("stream", "seq", "kind")
MAX_ROW_BYTES = 16 * 1024 * 1024
CHUNK_ROWS = 122_880
"""Rows loaded before the table is compressed: a row group of DuckDB's, which is compressed once."""


def connect() -> "duckdb.DuckDBPyConnection":
    """An empty in-memory DuckDB with the event table and its views, in UTC, that loads no extension from anywhere."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    # Most of the wide table is NULL: compressed, it takes a fiftieth of the memory.
    connection.execute("ATTACH ':memory:' AS oomctl (COMPRESS)")
    connection.execute("USE oomctl")
    connection.execute(ddl.script())
    return connection


def load_rows(connection: "duckdb.DuckDBPyConnection", rows: Iterable[Row]) -> int:
    """Append rows to the event table, by way of newline-delimited JSON, which DuckDB reads in parallel.

    Returns:
        How many rows were added.
    """
    source = iter(rows)
    count = 0
    with _scratch_file() as path:
        while True:
            added, kinds = _write_rows(path, islice(source, CHUNK_ROWS))
            if not added:
                return count
            count += added
            # Only the kinds that occur: DuckDB would parse a struct of NULLs per row for each of the others.
            wanted = {name: kind for name, kind in ddl.columns().items() if name in kinds or name in COMMON_NAMES}
            spec = ", ".join(f"'{name}': '{kind}'" for name, kind in (wanted | {"ts": "BIGINT"}).items())
            connection.execute(
                f"INSERT INTO {ddl.TABLE} BY NAME SELECT * REPLACE (make_timestamp(ts) AS ts) "
                f"FROM read_json(?, format = 'newline_delimited', columns = {{{spec}}}, "
                f"maximum_object_size = {MAX_ROW_BYTES})",
                [str(path)],
            )
            if added == CHUNK_ROWS:
                connection.execute("CHECKPOINT")  # compresses what was added


def _write_rows(path: Path, rows: Iterable[Row]) -> tuple[int, set[str]]:
    """Write rows as newline-delimited JSON; returns how many, and their kinds."""
    encoder = msgspec.json.Encoder()
    count = 0
    kinds: set[str] = set()
    with path.open("wb") as file:
        for row in rows:
            file.write(encoder.encode(row))
            file.write(b"\n")
            kinds.add(row["kind"])
            count += 1
    return count, kinds


def write_parquet(connection: "duckdb.DuckDBPyConnection", path: Path, writer: str, incident_id: str | None = None) -> None:
    """Write the event table, sorted by SORT_KEY, to a Parquet file that only its owner may read.

    The file appears whole or not at all: it is written beside its place and moved there.
    """
    metadata = {VERSION_KEY: str(SCHEMA_VERSION), WRITER_KEY: writer}
    if incident_id is not None:
        metadata[INCIDENT_KEY] = incident_id
    pairs = ", ".join(f"'{key}': '{_quoted(value)}'" for key, value in metadata.items())
    order = ", ".join(f'"{column}" NULLS FIRST' for column in SORT_KEY)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OomctlError(
            f"cannot write ({path}): {error.strerror}",
            "choose a folder that you may write to",
            ExitCode.ENVIRONMENT,
        ) from error
    os.close(descriptor)
    scratch = Path(name)
    try:
        connection.execute(
            f"COPY (SELECT * FROM {ddl.TABLE} ORDER BY {order}) TO '{_quoted(name)}' "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, KV_METADATA {{{pairs}}})"
        )
        scratch.chmod(0o600)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def load_parquet(connection: "duckdb.DuckDBPyConnection", path: Path, name: str | None = None) -> int:
    """Append a Parquet file of ours to the event table. Fields that it lacks read as NULL.

    Args:
        connection: From `connect`.
        path: Where it lies.
        name: What to call it in errors, where its path is a copy's.

    Returns:
        How many rows were added.

    Raises:
        OomctlError: If the file is not Parquet, not ours, of a newer version, or without rows; no row is read then.
    """
    import duckdb

    name = name or str(path)
    try:
        metadata = {
            bytes(key).decode("utf-8", "replace"): bytes(value).decode("utf-8", "replace")
            for key, value in connection.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
        }
        _check_version(metadata.get(VERSION_KEY), name)
        present = {row[0] for row in connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()}
        wrong = [f"unknown column {column!r}" for column in sorted(present - ddl.columns().keys())]
        wrong += [f"no column {column!r}" for column in NEEDED if column not in present]
        if wrong:
            raise OomctlError(
                f"not an event table of oomctl: {wrong[0]} ({name})", "give a file that `oomctl import` wrote"
            )
        before = _count(connection)
        connection.execute(f"INSERT INTO {ddl.TABLE} BY NAME SELECT * FROM read_parquet(?)", [str(path)])
        added = _count(connection) - before
        if not added:
            raise OomctlError(f"a recording without a row ({name})", "import the log again, or give the log itself")
        return added
    except duckdb.Error as error:
        reason = str(error).splitlines()[0][:200]
        raise OomctlError(
            f"cannot read as Parquet ({name}): {reason}",
            "the file is damaged or is not Parquet: import it again",
        ) from error


def _check_version(version: str | None, name: str) -> None:
    if version is None:
        raise OomctlError(f"Parquet, but not written by oomctl ({name})", "give a file that `oomctl import` wrote")
    if not re.fullmatch("[0-9]{1,9}", version):
        raise OomctlError(
            f"{version[:20]!r} is not a schema version of oomctl ({name})", "give a file that `oomctl import` wrote"
        )
    if int(version) > SCHEMA_VERSION:
        raise OomctlError(
            f"schema version {version} is newer than this oomctl reads, {SCHEMA_VERSION} ({name})",
            "upgrade oomctl: pip install -U oomctl",
        )


def _count(connection: "duckdb.DuckDBPyConnection") -> int:
    row = connection.execute(f"SELECT count(*) FROM {ddl.TABLE}").fetchone()
    return int(row[0]) if row else 0


def _quoted(value: str) -> str:
    return value.replace("'", "''")


@contextmanager
def _scratch_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="oomctl-") as folder:
        yield Path(folder) / "rows.ndjson"
