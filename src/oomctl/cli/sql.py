"""A user's SQL on the loaded event table: one SELECT, which can reach nothing but that table, and change nothing in it.

Four walls, each of which would do alone for most: what the statement is (`screen`), a transaction that only reads, a
connection without files, network, extensions and settings, and bounds on time and memory (`bounds`).
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb

from oomctl.cli.bounds import Stopwatch, bounded_memory, too_long
from oomctl.cli.render.rows import plain
from oomctl.cli.screen import refused, screen
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection

BATCH = 4096
LOCKS = (
    "max_temp_directory_size = '4GiB'",
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",
)
"""No Python variables, no files, no network, no disk full of what did not fit into memory, and no way back."""


class Result:
    """Rows of a statement, read as they are printed.

    Attributes:
        columns: Names, each made unique, since JSON objects would drop the second of two alike.
    """

    def __init__(self, connection: "DuckDBPyConnection", guarded: "Guard") -> None:
        self._connection = connection
        self._guarded = guarded
        self.columns = _unique([str(entry[0]) for entry in connection.description or []])

    def rows(self, limit: int | None) -> Iterator[list[Any]]:
        """Plain values, at most `limit` rows (None for all)."""
        left = limit
        while left is None or left > 0:
            batch = self._guarded(self._connection.fetchmany, BATCH if left is None else min(left, BATCH))
            if not batch:
                return
            for row in batch:
                yield [plain(value) for value in row]
            if left is not None:
                left -= len(batch)

    def batches(self) -> "Iterator[pyarrow.RecordBatch]":
        """All rows in columns of DuckDB's own types; at least one batch, which may be empty."""
        import pyarrow as pa

        with warnings.catch_warnings(action="ignore"):
            # DuckDB warns that rows which were executed for are copied once more.
            reader = self._guarded(self._connection.to_arrow_reader, 10_000)
        batch = pa.RecordBatch.from_pylist([], schema=reader.schema)
        while batch is not None:
            yield pa.RecordBatch.from_arrays([_storable(column) for column in batch.columns], names=list(self.columns))
            batch = self._guarded(next, reader, None)

    def more(self) -> bool:
        """Whether there are rows that were not read."""
        return self._guarded(self._connection.fetchone) is not None


Guard = Callable[..., Any]


class Session:
    """Statements on one event table; the connection is locked from here on.

    Args:
        connection: Holds the event table and the derived views.
        seconds: That a statement and the reading of its rows may take; None for as long as it takes.
    """

    def __init__(self, connection: "DuckDBPyConnection", seconds: float | None = None) -> None:
        self._connection = connection
        self._seconds = seconds
        self._watch = Stopwatch(connection, seconds)
        for lock in LOCKS:
            connection.execute(f"SET {lock}")

    @contextmanager
    def run(self, sql: str, parameters: Mapping[str, str | None] | None = None) -> Iterator[Result]:
        """Run one statement; its rows are there until the end of the block.

        Raises:
            OomctlError: With DuckDB's own words, if it is not one valid SELECT, or takes too much.
        """
        statements = self._guarded(self._connection.extract_statements, sql)
        if len(statements) != 1:
            what = "no SQL statement" if not statements else f"{len(statements)} SQL statements"
            raise OomctlError(what, "give exactly one", ExitCode.USAGE)
        if (kind := _kind(statements[0])) != "SELECT":
            raise refused(f"{kind}; only SELECT is run")
        screen(self._connection, statements[0].query)
        self._watch = Stopwatch(self._connection, self._seconds)
        with bounded_memory():
            self._connection.execute("BEGIN TRANSACTION READ ONLY")
            try:
                self._guarded(self._connection.execute, statements[0], dict(parameters or {}) or None)
                yield Result(self._connection, self._guarded)
            finally:
                self._connection.execute("ROLLBACK")

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """A call of DuckDB's, its errors told in its own first line and suggestion."""
        try:
            with self._watch.runs():
                return call(*arguments)
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            what = _first_line(error) if isinstance(error, duckdb.Error) else "SQL: out of memory"
            raise OomctlError(what, "select less, or aggregate", ExitCode.ENVIRONMENT) from error
        except duckdb.InterruptException as error:
            hint = "select less, or allow more with --timeout SECONDS"
            raise OomctlError(too_long(self._seconds or 0), hint, ExitCode.ENVIRONMENT) from error
        except duckdb.Error as error:
            text = str(error)
            found = re.search(r"(Did you mean|Candidate bindings:) (.*)", text)
            hint = "`oomctl schema events --sql` shows the tables and columns"
            if found:
                hint = f"did you mean {found[2].rstrip('?')}? {hint}"
            elif isinstance(error, duckdb.PermissionException):
                hint = "a query reads the loaded event table only; import files first"
            raise OomctlError(_first_line(error), hint, ExitCode.USAGE) from error


def _storable(column: "pyarrow.Array") -> "pyarrow.Array":
    """An interval, which Parquet's writer does not know, as seconds, as in the other forms; all else as it is."""
    import pyarrow as pa

    if not pa.types.is_interval(column.type):
        return column
    spans = (
        None if span is None else (span.months * 30 + span.days) * 86_400 + span.nanoseconds / 1e9
        for span in column.to_pylist()
    )
    return pa.array(spans, pa.float64())


def _kind(statement: duckdb.Statement) -> str:
    """What a statement is, in SQL's words."""
    try:
        return statement.type.name.replace("_", " ")
    except ValueError:  # the package has no name for some of what DuckDB parses
        return "a statement of another kind"


def _first_line(error: duckdb.Error) -> str:
    line = str(error).split("\n", 1)[0].strip()
    return f"SQL: {line[:300]}"


def _unique(names: list[str]) -> tuple[str, ...]:
    unique: dict[str, None] = {}
    for name in names:
        candidate, number = name, 1
        while candidate in unique:
            candidate, number = f"{name}_{number}", number + 1
        unique[candidate] = None
    return tuple(unique)
