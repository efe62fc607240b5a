"""What a query cannot be answered without, and whether it was recorded: no rows may mean "did not happen" or "not seen"."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TERM = re.compile(r"(?P<kind>\w+)(?:\.(?P<field>\w+)(?:=(?P<value>\w+))?)?")


@dataclass(frozen=True)
class Term:
    """Rows of a kind, or those of them that tell a field, or tell it to be so.

    Attributes:
        kind: Of the event table, or a derived view.
        field: Of its plain view; None for any row.
        value: What it must be; None for anything but NULL.
    """

    kind: str
    field: str | None = None
    value: str | None = None

    def __str__(self) -> str:
        field = f".{self.field}" if self.field else ""
        return f"{self.kind}{field}{f'={self.value}' if self.value else ''}"

    def is_met(self, connection: "DuckDBPyConnection") -> bool:
        """Whether there is such a row."""
        told = f'"{self.field}" IS NOT NULL' if self.field else "TRUE"
        # A boolean is true or false as text.
        wanted = f"AND CAST(\"{self.field}\" AS VARCHAR) = '{self.value}'" if self.value else ""
        return connection.execute(f'SELECT 1 FROM "{self.kind}" WHERE {told} {wanted} LIMIT 1').fetchone() is not None


@dataclass(frozen=True)
class Need:
    """One thing that must have been recorded.

    Attributes:
        any_of: One of them is enough.
        collector: Who would have told, in words.
    """

    any_of: tuple[Term, ...]
    collector: str

    @classmethod
    def parse(cls, text: str) -> "Need":
        """Read `KIND.FIELD or KIND: COLLECTOR`.

        Raises:
            ValueError: If it is not that.
        """
        terms, colon, collector = text.partition(": ")
        found = [_TERM.fullmatch(term.strip()) for term in terms.split(" or ")]
        if not colon or not collector or not all(found):
            raise ValueError(f"{text!r} is not `KIND.FIELD or KIND: COLLECTOR`")
        return cls(tuple(Term(term["kind"], term["field"], term["value"]) for term in found if term), collector)

    def __str__(self) -> str:
        return f"needs {self.collector}; no row has {' or '.join(map(str, self.any_of))}"


def lacking(connection: "DuckDBPyConnection", needs: tuple[Need, ...]) -> list[Need]:
    """Those that nothing in the event table meets.

    Args:
        connection: Holds the event table and the derived views.
        needs: Of a query.
    """
    return [need for need in needs if not any(term.is_met(connection) for term in need.any_of)]
