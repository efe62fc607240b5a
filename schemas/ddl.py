"""SQL of the event table, twice: as users and Parquet files see it, and as a connection of ours stores it.

Users see one wide table and a plain view per kind. Stored so, a row would fill every kind's columns with NULL, which costs
ten times what its own do, and every question about one kind would read the rows of all. So each kind has a table of its
own, in a schema apart; the views and `events`, a view too, have the same names and columns as those that users see.
"""

from collections.abc import Sequence

from oomctl.schemas.common import COMMON
from oomctl.schemas.declare import DUCKDB_TYPES, Kind
from oomctl.schemas.events import KINDS, view_columns
from oomctl.schemas.rows import LAST_US

TABLE = "events"
STORED = "stored"
_COMMON = "|".join(field.name for field in COMMON if field.name != "kind")


def struct_type(kind: Kind) -> str:
    """DuckDB's type of a kind's struct column."""
    members = ", ".join(f'"{field.name}" {DUCKDB_TYPES[field.type]}' for field in kind.fields)
    return f"STRUCT({members})"


def columns() -> dict[str, str]:
    """Column name to DuckDB type, in table order."""
    plain = {field.name: DUCKDB_TYPES[field.type] for field in COMMON}
    return plain | {name: struct_type(kind) for name, kind in KINDS.items()}


def create_table() -> str:
    """`CREATE TABLE` of the event table."""
    body = ",\n".join(f'    "{name}" {kind}' for name, kind in columns().items())
    return f"CREATE TABLE {TABLE} (\n{body}\n);"


def create_view(kind: Kind) -> str:
    """`CREATE VIEW` of the plain view of one kind: common columns, then the kind's fields under their names."""
    common = [f'"{field.name}"' for field in COMMON if field.name != "kind"]
    own = [f'{TABLE}."{kind.name}"."{field.name}" AS "{column}"' for column, field in view_columns(kind)]
    body = ",\n    ".join(common + own)
    return f"-- {kind.doc}\nCREATE VIEW \"{kind.name}\" AS\nSELECT\n    {body}\nFROM {TABLE}\nWHERE kind = '{kind.name}';"


def store() -> str:
    """The DDL of a connection of ours: a table per kind, its plain view, and `events` over all of them."""
    parts = [f"CREATE SCHEMA {STORED};"]
    for kind in KINDS.values():
        body = ",\n".join(f'    "{name}" {type_}' for name, type_ in stored_columns(kind).items())
        parts.append(
            f'CREATE TABLE {stored(kind)} (\n{body}\n);\nCREATE VIEW "{kind.name}" AS SELECT * FROM {stored(kind)};'
        )
    branches = "\nUNION ALL BY NAME\n".join(_branch(kind) for kind in KINDS.values())
    names = ", ".join(f'"{name}"' for name in columns())
    parts.append(f"CREATE VIEW {TABLE} AS\nSELECT {names}\nFROM (\n{branches}\n);")
    return "\n\n".join(parts) + "\n"


def stored(kind: Kind) -> str:
    """The table that holds a kind's rows."""
    return f'{STORED}."{kind.name}"'


def stored_columns(kind: Kind) -> dict[str, str]:
    """Column name to DuckDB type of the table that holds a kind's rows: those of its plain view."""
    plain = {field.name: DUCKDB_TYPES[field.type] for field in COMMON if field.name != "kind"}
    return plain | {column: DUCKDB_TYPES[field.type] for column, field in view_columns(kind)}


def insert(kind: Kind, source: str, condition: str = "TRUE") -> str:
    """SQL that stores the rows of one kind.

    Args:
        kind: Which.
        source: A FROM clause of rows that have the kind's struct column and any of the common columns.
        condition: On the columns of its plain view; ours, never a user's.
    """
    own = ", ".join(f'"{kind.name}"."{field.name}" AS "{column}"' for column, field in view_columns(kind))
    return (
        f"INSERT INTO {stored(kind)} BY NAME SELECT COLUMNS('^({_COMMON})$'), {own} "
        f'FROM (SELECT * REPLACE (CAST("{kind.name}" AS {struct_type(kind)}) AS "{kind.name}") FROM {source}) '
        f"WHERE {condition}"
    )


def ordered(kind: Kind, order: Sequence[str], source: str | None = None, besides: Sequence[str] = ()) -> str:
    """A query for the rows of one kind as `events` has them, without the columns of the others.

    Args:
        kind: Which.
        order: Columns by which they are ordered.
        source: What stands behind FROM; None for all that are stored.
        besides: Columns of `source` that are returned too.
    """
    by = ", ".join(f'"{column}" NULLS FIRST' for column in order)
    return _branch(kind, f"(SELECT * FROM {source or stored(kind)} ORDER BY {by})", besides)


def _branch(kind: Kind, source: str | None = None, besides: Sequence[str] = ()) -> str:
    common = ", ".join(f'"{name}"' for name in (*besides, *(field.name for field in COMMON if field.name != "kind")))
    own = ", ".join(f'"{field.name}" := "{column}"' for column, field in view_columns(kind))
    return f"SELECT {common}, '{kind.name}' AS kind, struct_pack({own}) AS \"{kind.name}\" FROM {source or stored(kind)}"


def known_time(sql: str) -> str:
    """SQL of a timestamp; NULL beyond the years 1 to 9999, which DuckDB holds and Python does not."""
    return f"(CASE WHEN {sql} BETWEEN TIMESTAMP '0001-01-01' AND make_timestamp({LAST_US}) THEN {sql} END)"


def script() -> str:
    """The whole DDL: table and views, as `oomctl schema events --sql` prints it."""
    return "\n\n".join([create_table(), *(create_view(kind) for kind in KINDS.values())]) + "\n"
