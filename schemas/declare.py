"""How a field and a kind of the event table are declared."""

from dataclasses import dataclass
from typing import Literal

Type = Literal["int", "float", "text", "bool", "timestamp"]

DUCKDB_TYPES: dict[Type, str] = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "text": "VARCHAR",
    "bool": "BOOLEAN",
    "timestamp": "TIMESTAMP",
}
"""Only types that Spark, ClickHouse and Trino read alike: signed integers, no lists, microseconds in UTC."""

JSON_TYPES: dict[Type, str] = {
    "int": "integer",
    "float": "number",
    "text": "string",
    "bool": "boolean",
    "timestamp": "string",
}


@dataclass(frozen=True)
class Field:
    """One column, or one member of a kind's struct. Every field is nullable: NULL is "not observed", never 0.

    Attributes:
        name: Carries its unit: `_bytes`, `_tokens`, `_blocks`, `_us`, `_ratio` (0 to 1).
        type: One of the portable types.
        doc: What it says, in one line.
        values: The closed set of texts, where there is one.
    """

    name: str
    type: Type
    doc: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """One kind of event: the struct column of the same name, and the plain view of the same name."""

    name: str
    doc: str
    fields: tuple[Field, ...]


def integer(name: str, doc: str) -> Field:
    """A signed 64-bit integer."""
    return Field(name, "int", doc)


def number(name: str, doc: str) -> Field:
    """A double."""
    return Field(name, "float", doc)


def text(name: str, doc: str, *values: str) -> Field:
    """A text, of a closed set where `values` are given."""
    return Field(name, "text", doc, values)


def flag(name: str, doc: str) -> Field:
    """A boolean."""
    return Field(name, "bool", doc)
