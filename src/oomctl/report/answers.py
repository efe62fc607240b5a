"""What the page shows beside the verdict: named queries of the catalogue, asked of the same event table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.queries.needs import lacking

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Record = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A named query and what it answered.

    Attributes:
        query: Of queries/postmortem.
        rows: In the order of the query's columns.
        missing: Why there can be none, in words; None where everything it needs was recorded.
    """

    query: queries.Query
    rows: list[tuple[Any, ...]]
    missing: str | None = None

    @property
    def columns(self) -> list[str]:
        """Names, in order."""
        return [column for column, _ in self.query.columns]

    @property
    def records(self) -> list[Record]:
        """Each row by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def ask(connection: "DuckDBPyConnection", names: Sequence[str]) -> dict[str, Answer]:
    """The answers to some queries, by name.

    Args:
        connection: With the event table and the derived views.
        names: Of queries/postmortem; each of their parameters keeps its default.
    """
    return {name: _answer(connection, name) for name in names}


def _answer(connection: "DuckDBPyConnection", name: str) -> Answer:
    query = queries.load("postmortem", name)
    missing = lacking(connection, query.needs)
    if missing:
        return Answer(query, [], f"not recorded: {'; '.join(map(str, missing))}")
    return Answer(query, connection.execute(query.sql, query.bound()).fetchall())
