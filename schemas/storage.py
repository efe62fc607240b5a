"""The event table on disk and in DuckDB: loading rows, writing and reading Parquet, the version gate."""

import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from oomctl.schemas import ddl, wide
from oomctl.schemas.declare import Kind
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.events import COMMON_NAMES, KIND_ORDER, KINDS
from oomctl.schemas.rows import NEEDED, Row
from oomctl.schemas.version import SCHEMA_VERSION, VERSION_KEY, check_version
from oomctl.schemas.whole import beside

if TYPE_CHECKING:
    import duckdb

WRITER_KEY = "oomctl.writer"
INCIDENT_KEY = "oomctl.incident_id"
MAX_ROW_BYTES = 16 * 1024 * 1024
Cut = Mapping[str, str]
"""Kind to the condition, on the columns of its plain view, under which its rows are loaded; other kinds are loaded all."""
NOTHING = "FALSE"
"""The condition of a kind of which no row is loaded."""
CHUNK_ROWS = 122_880
"""Rows of a kind that are loaded at once: a row group of DuckDB's, which is compressed once."""
PARQUET = "read_parquet(?, hive_partitioning = false)"
"""A file by itself: the folders that it lies in may be called like columns."""
WRITE_ROWS = 1024
"""Rows of a kind that are kept before they are written to its file; CHUNK_ROWS is a multiple of it."""
MEMORY_LIMIT = "192MiB"


def connect() -> "duckdb.DuckDBPyConnection":
    """An empty in-memory DuckDB with the event table and its views, in UTC, that loads no extension from anywhere."""
    import duckdb

    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": MEMORY_LIMIT,
            # What does not fit is put down there, and removed with the connection; by default that is the working folder.
            "temp_directory": str(Path(tempfile.gettempdir()) / f"oomctl-{os.getpid()}-{secrets.token_hex(4)}"),
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    connection.execute("ATTACH ':memory:' AS oomctl (COMPRESS)")
    connection.execute("USE oomctl")
    connection.execute(ddl.store())
    return connection


def load_rows(connection: "duckdb.DuckDBPyConnection", rows: Iterable[Row]) -> int:
    """Append rows to the event table, by way of newline-delimited JSON, a file per kind, which DuckDB reads in parallel.

    Returns:
        How many rows were added.
    """
    count = 0
    waiting: dict[str, _Waiting] = {}
    encode = msgspec.json.Encoder().encode
    with tempfile.TemporaryDirectory(prefix="oomctl-") as folder:
        try:
            for row in rows:
                kind = row["kind"]
                queue = waiting.get(kind)
                if queue is None:
                    queue = waiting[kind] = _Waiting(Path(folder) / f"{kind}.ndjson")
                queue.rows.append(encode(row))
                if len(queue.rows) == WRITE_ROWS:
                    queue.write()
                    if queue.written == CHUNK_ROWS:
                        queue.load(connection, KINDS[kind])
                count += 1
            for kind, queue in waiting.items():
                queue.write()
                queue.load(connection, KINDS[kind])
        finally:
            for queue in waiting.values():
                queue.file.close()
    return count


class _Waiting:
    """Rows of one kind on their way."""

    def __init__(self, path: Path) -> None:
        self.rows: list[bytes] = []
        self.written = 0
        self.file = path.open("w+b")

    def write(self) -> None:
        """Put them into the file."""
        self.file.write(b"\n".join(self.rows) + b"\n")
        self.written += len(self.rows)
        self.rows.clear()

    def load(self, connection: "duckdb.DuckDBPyConnection", kind: Kind) -> None:
        """Store what is in the file, and empty it."""
        self.file.flush()
        wanted = {name: kind_ for name, kind_ in ddl.columns().items() if name == kind.name or name in COMMON_NAMES}
        spec = ", ".join(f"'{name}': '{kind_}'" for name, kind_ in (wanted | {"ts": "BIGINT"}).items() if name != "kind")
        ts = ddl.known_time("make_timestamp(ts)")
        source = (
            f"(SELECT * REPLACE ({ts} AS ts) FROM read_json(?, format = 'newline_delimited', "
            f"columns = {{{spec}}}, maximum_object_size = {MAX_ROW_BYTES}))"
        )
        connection.execute(ddl.insert(kind, source), [self.file.name])
        if self.written == CHUNK_ROWS:
            connection.execute("CHECKPOINT")  # compresses what was added
        self.file.seek(0)
        self.file.truncate()
        self.written = 0


def load_relation(
    connection: "duckdb.DuckDBPyConnection", source: str, parameters: Sequence[str] = (), cut: Cut | None = None
) -> int:
    """Append the rows of a relation that has columns of the event table; those that it lacks are NULL.

    Args:
        connection: From `connect`.
        source: What stands behind FROM.
        parameters: Of `source`.
        cut: What of it is loaded.

    Returns:
        How many rows it has, loaded or not.

    Raises:
        OomctlError: If a row is of a kind that is not declared.
    """
    counts = connection.execute(f"SELECT kind, count(*) FROM {source} GROUP BY ALL ORDER BY ALL", parameters).fetchall()
    unknown = [kind for kind, _ in counts if kind not in KINDS]
    if unknown:
        raise OomctlError(f"not an event table of oomctl: unknown kind {str(unknown[0])!r}")
    present = [column[0] for column in connection.execute(f"SELECT * FROM {source} LIMIT 0", parameters).description or ()]
    for kind, _ in counts:
        # Of its own columns alone: a plan with those of all kinds takes longer than a thousand rows.
        own = ", ".join(f'"{column}"' for column in present if column in COMMON_NAMES or column == kind)
        rows = f"(SELECT {own} FROM {source} WHERE kind = '{kind}')"
        condition = (cut or {}).get(kind, "TRUE")
        if condition != NOTHING:
            connection.execute(ddl.insert(KINDS[kind], rows, condition), parameters)
    return sum(count for _, count in counts)


def write_parquet(
    connection: "duckdb.DuckDBPyConnection",
    path: Path,
    writer: str,
    incident_id: str | None = None,
    rows: Iterable[Any] | None = None,
) -> None:
    """Write the event table, or some of its rows, to a Parquet file that only its owner may read.

    It is sorted by SORT_KEY. The file appears whole or not at all: it is written beside its place and moved there.

    Args:
        connection: From `connect`.
        path: Where to.
        writer: Program and version.
        incident_id: Of what was frozen.
        rows: Those to be written, sorted, as `wide.write` takes them; None for all.
    """
    metadata = {VERSION_KEY: str(SCHEMA_VERSION), WRITER_KEY: writer}
    if incident_id is not None:
        metadata[INCIDENT_KEY] = incident_id
    with beside(path) as scratch:
        wide.write(scratch, wide.stored(connection, KIND_ORDER) if rows is None else rows, metadata)


def load_parquet(
    connection: "duckdb.DuckDBPyConnection",
    path: Path,
    name: str | None = None,
    where: str = "",
    once: bool = False,
    cut: Cut | None = None,
) -> int:
    """Append a Parquet file of ours to the event table. Fields that it lacks read as NULL.

    Args:
        connection: From `connect`.
        path: Where it lies.
        name: What to call it in errors, where its path is a copy's.
        where: A WHERE clause on its rows, ours, never a user's.
        once: Leave out rows that the table holds already.
        cut: What of its rows is loaded.

    Returns:
        How many rows it has to add, loaded or not.

    Raises:
        OomctlError: If the file is not Parquet, not ours, of a newer version, or without rows (where all are taken); no row
            is read then.
    """
    import duckdb

    name = name or str(path)
    try:
        metadata = {
            bytes(key).decode("utf-8", "replace"): bytes(value).decode("utf-8", "replace")
            for key, value in connection.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
        }
        check_version(metadata.get(VERSION_KEY), name)
        present = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {PARQUET}", [str(path)]).fetchall()}
        wrong = [f"unknown column {column!r}" for column in sorted(present - ddl.columns().keys())]
        wrong += [f"no column {column!r}" for column in NEEDED if column not in present]
        if wrong:
            raise OomctlError(
                f"not an event table of oomctl: {wrong[0]} ({name})", "give a file that `oomctl import` wrote"
            )
        anew = "ANTI JOIN (SELECT stream, seq FROM events) USING (stream, seq)" if once else ""
        columns = f"* REPLACE ({ddl.known_time('ts')} AS ts)" if "ts" in present else "*"
        added = load_relation(connection, f"(SELECT {columns} FROM {PARQUET} {anew} {where})", [str(path)], cut)
        if not added and not once and not where:
            raise OomctlError(f"a recording without a row ({name})", "import the log again, or give the log itself")
        return added
    except duckdb.Error as error:
        reason = str(error).splitlines()[0][:200]
        raise OomctlError(
            f"cannot read as Parquet ({name}): {reason}",
            "the file is damaged or is not Parquet: import it again",
        ) from error


def quoted(value: str) -> str:
    """A text for the inside of an SQL string."""
    return value.replace("'", "''")
