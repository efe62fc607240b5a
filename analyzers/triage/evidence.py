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
    cursor = connection.execute(query.sql, {key: given[key] for key in query.params})
    columns = [column[0] for column in cursor.description or ()]
    return [{**dict(zip(columns, row, strict=True)), "query": name} for row in cursor.fetchall()]


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
