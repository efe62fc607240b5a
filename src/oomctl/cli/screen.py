"""What a user's SQL may be: one SELECT, from the tables of the incident, by functions that only compute.

DuckDB itself parses it, and says what it understood as JSON; so no comment, spelling or nesting hides anything. Everything
that is not known to be harmless is refused: DuckDB gains statements, and functions that act, with every version.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.schemas.ddl import STORED, TABLE
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.events import KINDS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PARTS = frozenset(
    {
        "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE",
        "BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT", "SHOW_REF", "EMPTY",
        "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER", "ORDER_MODIFIER",
        "ORDER_DEFAULT", "ASCENDING", "DESCENDING", "ORDER_ASCENDING", "ORDER_DESCENDING",
    }
)  # fmt: skip
"""What a question is made of, beside expressions. Since DuckDB 2 a WITH may also hold an INSERT_QUERY_NODE and the like."""
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree", "reached"})
"""All others are left out: they read files, settings, memory addresses, or run SQL that stands in a text."""
REFUSED_FUNCTIONS = frozenset(
    {
        "current_setting", "getenv", "getvariable", "write_log", "nextval", "currval", "setval", "setseed", "sleep_ms",
        "pg_sleep", "json_execute_serialized_sql", "query", "query_table", "current_query", "current_query_id",
        "current_connection_id", "current_transaction_id", "txid_current", "stats", "vector_type",
    }
)  # fmt: skip
"""Scalar functions that act, wait, or tell of the process instead of the incident."""


def screen(connection: "DuckDBPyConnection", sql: str) -> None:
    """Refuse what is more than a question about the incident.

    Args:
        connection: Any; it only parses.
        sql: One statement.

    Raises:
        OomctlError: Saying what is refused.
    """
    import msgspec

    (text,) = connection.execute("SELECT CAST(json_serialize_sql($sql) AS VARCHAR)", {"sql": sql}).fetchone() or ("",)
    found = msgspec.json.decode(text)
    if found.get("error"):
        raise refused(str(found.get("error_message", "it cannot be read"))[:200].rstrip("!"))
    tables = _tables()
    for node in _nodes(found["statements"]):
        _check(node, tables)


def refused(what: str) -> OomctlError:
    """The error for a statement that is not run."""
    hint = "a query is one SELECT over the incident's own tables; `oomctl schema events --sql` shows them"
    return OomctlError(f"SQL refused: {what}", hint, ExitCode.USAGE)


@cache
def _tables() -> frozenset[str]:
    """Names of what there is to read, in lower case."""
    return frozenset({TABLE, *KINDS, *queries.names("views")})


def _check(node: dict[str, Any], tables: frozenset[str]) -> None:
    kind = node.get("type")
    if "class" not in node and isinstance(kind, str) and kind not in PARTS:
        raise refused(kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " "))
    if kind == "BASE_TABLE":
        _check_table(node, tables)
    elif kind == "TABLE_FUNCTION":
        name = _name(node["function"])
        if name not in TABLE_FUNCTIONS:
            raise refused(f"function {name}")
    elif kind == "SHOW_REF" and node.get("show_type") not in ("DESCRIBE", "SUMMARY"):
        raise refused("SHOW; DESCRIBE NAME shows a table's columns")
    elif node.get("class") == "FUNCTION" and _name(node) in REFUSED_FUNCTIONS:
        raise refused(f"function {_name(node)}")


def _check_table(node: dict[str, Any], tables: frozenset[str]) -> None:
    """Unqualified names that are no table of ours are a WITH's, or unknown to DuckDB too; system views are neither."""
    name, schema, catalog = (str(node.get(key) or "").lower() for key in ("table_name", "schema_name", "catalog_name"))
    if name in tables and schema in ("", "main", "oomctl", STORED) and catalog in ("", "oomctl"):
        return
    if schema or catalog:
        raise refused(f"{'.'.join(part for part in (catalog, schema, name) if part)} is no table of the incident")
    if name.startswith(("duckdb_", "pragma_", "sqlite_", "pg_")) or not name.isidentifier():
        raise refused(f"{name} is no table of the incident")


def _name(node: dict[str, Any]) -> str:
    """Of a function, whatever schema stands before it."""
    return str(node.get("function_name", "")).lower()


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in it; a stack, not recursion: it may be nested as deep as somebody likes."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
