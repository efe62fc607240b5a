"""SQL of the event table: the table, the plain view per kind, the column list for loading."""

from oomctl.schemas.common import COMMON
from oomctl.schemas.declare import DUCKDB_TYPES, Kind
from oomctl.schemas.events import KINDS, view_columns

TABLE = "events"


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


def script() -> str:
    """The whole DDL: table and views, as `oomctl schema events --sql` prints it."""
    return "\n\n".join([create_table(), *(create_view(kind) for kind in KINDS.values())]) + "\n"
