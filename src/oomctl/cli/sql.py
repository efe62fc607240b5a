"""A user's SQL on the loaded event table: one statement, which can reach nothing but that table."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import duckdb

from oomctl.cli.render.rows import plain
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH = 4096
LOCKS = ("python_enable_replacements = false", "enable_external_access = false", "lock_configuration = true")
"""No Python variables, no files, no network, and no way back."""


class Result:
    """Rows of a statement, read as they are printed.

    Attributes:
        columns: Names, each made unique, since JSON objects would drop the second of two alike.
    """

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        self._connection = connection
        self.columns = _unique([str(entry[0]) for entry in connection.description or []])

    def rows(self, limit: int | None) -> Iterator[list[Any]]:
        """Plain values, at most `limit` rows (None for all)."""
        left = limit
        while left is None or left > 0:
            batch = _guarded(self._connection.fetchmany, BATCH if left is None else min(left, BATCH))
            if not batch:
                return
            for row in batch:
                yield [plain(value) for value in row]
            if left is not None:
                left -= len(batch)

    def more(self) -> bool:
        """Whether there are rows that were not read."""
        return _guarded(self._connection.fetchone) is not None


def run(connection: "DuckDBPyConnection", sql: str, parameters: dict[str, str]) -> Result:
    """Run one statement.

    Raises:
        OomctlError: With DuckDB's own words, if it is not one valid statement.
    """
    for lock in LOCKS:
        connection.execute(f"SET {lock}")
    statements = _guarded(connection.extract_statements, sql)
    if len(statements) != 1:
        what = "no SQL statement" if not statements else f"{len(statements)} SQL statements"
        raise OomctlError(what, "give exactly one", ExitCode.USAGE)
    _guarded(connection.execute, statements[0], parameters or None)
    return Result(connection)


def _guarded(call: Callable[..., Any], *arguments: Any) -> Any:
    """A call of DuckDB's, its errors told in its own first line and suggestion."""
    try:
        return call(*arguments)
    except duckdb.OutOfMemoryException as error:
        raise OomctlError(_first_line(error), "select less, or aggregate", ExitCode.ENVIRONMENT) from error
    except duckdb.Error as error:
        text = str(error)
        found = re.search(r"(Did you mean|Candidate bindings:) (.*)", text)
        hint = "`oomctl schema events --sql` shows the tables and columns"
        if found:
            hint = f"did you mean {found[2].rstrip('?')}? {hint}"
        elif isinstance(error, duckdb.PermissionException):
            hint = "a query reads the loaded event table only; import files first"
        raise OomctlError(_first_line(error), hint, ExitCode.USAGE) from error


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
