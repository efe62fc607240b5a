"""What can be asked of one loaded incident: a query by its name, or SQL."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oomctl import queries
from oomctl.cli.sql import Session
from oomctl.queries.needs import lacking

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from oomctl.cli.answers import Answers

NOTHING = "no rows: what it asks of was recorded, and nothing in it answers"


class Questions:
    """One loaded incident.

    Args:
        connection: Holds the event table; is closed by `close`.
        seconds: That an answer may take; None for as long as it takes.
    """

    def __init__(self, connection: "DuckDBPyConnection", seconds: float | None) -> None:
        self.connection = connection
        queries.install(connection)
        self._session = Session(connection, seconds)

    def named(self, name: str, given: Mapping[str, str], answers: "Answers") -> None:
        """Answer a query of the catalogue, or say what was not recorded for it.

        Args:
            name: Of the catalogue.
            given: Its parameters, as typed.
            answers: Where to.
        """
        query = queries.load("postmortem", name)
        columns = [column for column, _ in query.columns]
        missing = lacking(self.connection, query.needs)
        if missing:
            answers.give_words(columns, f"not recorded: {'; '.join(map(str, missing))}")
            return
        with self._session.run(query.sql, query.bound(given)) as result:
            if answers.give(result) == 0:
                answers.note(f"{name}: {NOTHING}")

    def free(self, sql: str, answers: "Answers") -> None:
        """Answer a SELECT."""
        with self._session.run(sql) as result:
            answers.give(result)

    def catalogue(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """(columns, rows) of the named queries, each with what was not recorded for it."""
        found = (queries.load("postmortem", name) for name in queries.names("postmortem"))
        return ("name", "title", "not_recorded"), [
            (query.name, query.title, "; ".join(need.collector for need in lacking(self.connection, query.needs)))
            for query in found
        ]

    def close(self) -> None:
        """Let the incident go."""
        self.connection.close()
