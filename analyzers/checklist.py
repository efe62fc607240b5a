"""The deployment checklist (queries/checklist/, one item per file): met, not met, or not observed, with its evidence."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from oomctl import queries

if TYPE_CHECKING:
    import duckdb

STATES: dict[bool | None, Literal["met", "not met", "not observed"]] = {True: "met", False: "not met", None: "not observed"}


@dataclass(frozen=True)
class Item:
    """One item.

    Attributes:
        name: As of the query file, without its number.
        question: What is asked.
        state: met, not met or not observed.
        evidence: What decides it, or what is missing.
    """

    name: str
    question: str
    state: Literal["met", "not met", "not observed"]
    evidence: str


def go_through(connection: "duckdb.DuckDBPyConnection") -> Iterator[Item]:
    """Every item, in order.

    Args:
        connection: With the event table and the views.
    """
    for name in queries.names("checklist"):
        query = queries.load("checklist", name)
        row = connection.execute(query.sql).fetchone()
        met, evidence = row if row is not None else (None, "")
        yield Item(name.partition("_")[2], query.title, STATES[met], evidence)
