"""Rows that named evidence queries returned: the only thing that a statement may cite."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.schemas.verdict import Citation, Evidence

if TYPE_CHECKING:
    import duckdb

EvidenceRow = dict[str, Any]
"""A row of an evidence query; `query` names it, `stream`, `seq` and `line` identify what it is about."""


def ask(connection: "duckdb.DuckDBPyConnection", name: str, params: dict[str, Any] | None = None) -> list[EvidenceRow]:
    """Run queries/evidence/NAME.sql.

    Args:
        connection: With the event table and the derived views.
        name: File name without its ending.
        params: May hold more than the query takes.

    Returns:
        Its rows, each with the query's name under `query`.
    """
    query = queries.load("evidence", name)
    given = params or {}
    return _rows(connection.execute(query.sql, {key: given[key] for key in query.params}), name)


def _rows(cursor: "duckdb.DuckDBPyConnection", name: str) -> list[EvidenceRow]:
    columns = [column[0] for column in cursor.description or ()]
    return [{**dict(zip(columns, row, strict=True)), "query": name} for row in cursor.fetchall()]


class Answers:
    """What the evidence queries return about several failures.

    A query costs milliseconds before it reads a row, and hardly more about fifty failures than about one: what is asked
    about one of them is asked about all.

    Attributes:
        connection: With the event table and the derived views.
    """

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self.connection = connection
        self._failures: list[EvidenceRow] = []
        self._known: dict[str, dict[tuple[Any, ...], list[EvidenceRow]]] = {}

    def concern(self, failure: EvidenceRow) -> None:
        """Take in a failure that will be asked about."""
        self._failures.append(failure)

    def about(self, name: str, subjects: Sequence[EvidenceRow]) -> list[EvidenceRow]:
        """The rows of queries/evidence/NAME.sql about each subject, in their order.

        Args:
            name: File name without its ending.
            subjects: Each holds the query's parameters; failures, or other rows.
        """
        query = queries.load("evidence", name)
        known = self._known.setdefault(name, {})
        wanted = [_values(query, subject) for subject in subjects]
        missing = dict.fromkeys(values for values in wanted if values not in known)
        if missing:
            others = dict.fromkeys(_values(query, failure) for failure in self._failures)
            if not missing.keys().isdisjoint(others):
                missing.update((values, None) for values in others if values not in known)
            known.update(self._asked(query, list(missing)))
        return [row for values in wanted for row in known[values]]

    def _asked(self, query: queries.Query, asked: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[EvidenceRow]]:
        if len(asked) == 1:
            return {asked[0]: ask(self.connection, query.name, dict(zip(query.params, asked[0], strict=True)))}
        found: dict[tuple[Any, ...], list[EvidenceRow]] = {values: [] for values in asked}
        lists = dict(zip(query.params, map(list, zip(*asked, strict=True)), strict=True))
        for row in _rows(self.connection.execute(query.of_many(), lists), query.name):
            found[asked[row.pop("asked") - 1]].append(row)
        return found


def _values(query: queries.Query, subject: EvidenceRow) -> tuple[Any, ...]:
    return tuple(subject[name] for name in query.params)


def cite(rows: Iterable[EvidenceRow]) -> tuple[Citation, ...]:
    """Citations of rows, each line once, without their text yet (Texts fills it in)."""
    seen: set[tuple[str, int | None, int]] = set()
    cited = []
    for row in rows:
        key = (row["stream"], row.get("line"), row["seq"] if row.get("line") is None else -1)
        if key not in seen:
            seen.add(key)
            cited.append(Citation(stream=row["stream"], seq=row["seq"], query=row["query"], line=row.get("line")))
    return tuple(cited)


def statement(says: str, supports: str, weight: float, rows: Sequence[EvidenceRow]) -> Evidence:
    """A statement with the rows that bear it."""
    return Evidence(says=says, supports=supports, weight=round(weight, 3), cites=cite(rows))
