"""Logs to triage: read as any log, joined in one event table, each under its own stream."""

from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING

from oomctl import queries
from oomctl.analyzers.triage import triage
from oomctl.collectors.artifacts.logs import read_log
from oomctl.schemas import ddl, storage
from oomctl.schemas.events import KINDS
from oomctl.schemas.verdict import Incident

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def triaged(*logs: str) -> list[Incident]:
    """The incidents of some logs, as `oomctl triage` of as many files gives them, on a connection that is used again."""
    connection = _connection()
    connection.execute("".join(f"TRUNCATE {ddl.stored(kind)};" for kind in KINDS.values()))
    for number, log in enumerate(logs):
        storage.load_rows(connection, read_log(BytesIO(log.encode()), f"{number}.log").rows)
    return triage(connection)


def first(*logs: str) -> Incident:
    """The root incident."""
    return triaged(*logs)[0]


@cache
def _connection() -> "DuckDBPyConnection":
    # Tables and views cost as much as a whole verdict, and thousands are given here.
    connection = storage.connect()
    queries.install(connection)
    return connection
