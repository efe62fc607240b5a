"""Queries that are tagged portable give the same rows in a second engine: SQLite, of Python's standard library.

It is the strictest reader at hand (no QUALIFY, no ASOF, no lists, integer division), and stands for the engines that
fleets keep their Parquet in; those themselves are not run here. SQLite has neither times nor booleans: they go in as text,
and as 0 or 1.
"""

import sqlite3
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from oomctl import queries
from oomctl.schemas.common import COMMON
from oomctl.schemas.events import KINDS
from tests.queries.fixtures import Fixture, database

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PORTABLE = [name for name in queries.names("postmortem") if queries.load("postmortem", name).portable]
FIXTURES = (Fixture("recording"), Fixture("decode_exhausted", "sglang", ranks=2), Fixture("snapshot"))


def plain(value: Any) -> Any:
    """A value as SQLite would hold it."""
    if isinstance(value, datetime):
        return value.isoformat(" ", "microseconds")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return int(value) if isinstance(value, bool) else value


def copied(connection: "DuckDBPyConnection") -> sqlite3.Connection:
    """The plain tables, and the common columns of all of them together."""
    second = sqlite3.connect(":memory:")
    common = ", ".join(field.name for field in COMMON)
    for table in (*KINDS, "events"):
        cursor = connection.execute(f'SELECT {common if table == "events" else "*"} FROM "{table}"')
        names = [column[0] for column in cursor.description or ()]
        quoted = ", ".join(f'"{name}"' for name in names)
        second.execute(f'CREATE TABLE "{table}" ({quoted})')
        rows = [[plain(value) for value in row] for row in cursor.fetchall()]
        second.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(names))})', rows)
    return second


def test_there_are_half_a_dozen() -> None:
    assert len(PORTABLE) >= 6


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.scenario)
def test_same_rows_in_both_engines(fixture: Fixture) -> None:
    connection = database(fixture)
    second = copied(connection)
    for name in PORTABLE:
        sql = queries.load("postmortem", name).sql
        first = connection.execute(sql)
        columns = [column[0] for column in first.description or ()]
        rows = [tuple(plain(value) for value in row) for row in first.fetchall()]
        again = second.execute(sql)
        assert [column[0] for column in again.description] == columns, name
        assert again.fetchall() == rows, name
