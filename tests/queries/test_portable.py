"""Queries that are tagged portable give the same rows in other engines: SQLite and DataFusion.

SQLite is the strictest reader at hand (no QUALIFY, no ASOF, no lists, integer division). It has neither times nor booleans:
they go in as text, and as 0 or 1. DataFusion, which reads Arrow and Parquet as they are, stands for the engines that fleets
keep their Parquet in.
"""

import sqlite3
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import datafusion
import pyarrow as pa
import pytest

from oomctl import queries
from oomctl.schemas.common import COMMON
from oomctl.schemas.events import KINDS
from tests.queries.fixtures import Fixture, database

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Answer: TypeAlias = tuple[list[str], list[tuple[Any, ...]]]
"""(columns, rows)."""
Ask: TypeAlias = Callable[[str], Answer]
PORTABLE = [name for name in queries.names("postmortem") if queries.load("postmortem", name).portable]
FIXTURES = (Fixture("recording"), Fixture("decode_exhausted", "sglang", ranks=2), Fixture("snapshot"))


def plain(value: Any) -> Any:
    """A value as SQLite would hold it."""
    if isinstance(value, datetime):
        return value.isoformat(" ", "microseconds")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return int(value) if isinstance(value, bool) else value


def columns_of(table: str) -> str:
    """Of the plain tables all; of all of them together the common ones."""
    return ", ".join(field.name for field in COMMON) if table == "events" else "*"


def in_sqlite(connection: "DuckDBPyConnection") -> Ask:
    """A copy of the tables in SQLite."""
    second = sqlite3.connect(":memory:")
    for table in (*KINDS, "events"):
        cursor = connection.execute(f'SELECT {columns_of(table)} FROM "{table}"')
        names = [column[0] for column in cursor.description or ()]
        quoted = ", ".join(f'"{name}"' for name in names)
        second.execute(f'CREATE TABLE "{table}" ({quoted})')
        rows = [[plain(value) for value in row] for row in cursor.fetchall()]
        second.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(names))})', rows)

    def ask(sql: str) -> Answer:
        found = second.execute(sql)
        return [column[0] for column in found.description], found.fetchall()

    return ask


def in_datafusion(connection: "DuckDBPyConnection") -> Ask:
    """The tables in DataFusion."""
    second = datafusion.SessionContext()
    for table in (*KINDS, "events"):
        found = connection.sql(f'SELECT {columns_of(table)} FROM "{table}"').to_arrow_table()
        batches = found.to_batches() or [pa.RecordBatch.from_pylist([], schema=found.schema)]
        second.register_record_batches(table, [batches])

    def ask(sql: str) -> Answer:
        answer = second.sql(sql)
        rows = [
            row for batch in answer.collect() for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        return answer.schema().names, [tuple(plain(value) for value in row) for row in rows]

    return ask


def test_there_are_half_a_dozen() -> None:
    assert len(PORTABLE) >= 6


@pytest.mark.parametrize("copy", [in_sqlite, in_datafusion])
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.scenario)
def test_same_rows_in_both_engines(fixture: Fixture, copy: Callable[["DuckDBPyConnection"], Ask]) -> None:
    connection = database(fixture)
    ask = copy(connection)
    for name in PORTABLE:
        sql = queries.load("postmortem", name).sql
        first = connection.execute(sql)
        columns = [column[0] for column in first.description or ()]
        rows = [tuple(plain(value) for value in row) for row in first.fetchall()]
        assert ask(sql) == (columns, rows), name
