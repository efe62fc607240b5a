"""Checks the header of every query file, and runs it; `make check` does so, and so does a test."""

import re
import sys
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from oomctl import queries
from tests.scenarios.connected import connected

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROOM = Path(__file__).parent.parent / "queries"
FOLDERS = ("views", "evidence", "postmortem", "checklist", "capacity")
PARAMETER = re.compile(r"\$([a-z_]\w*)")
SCENARIO = "prefill_long_prompt"
VALUES = {
    "stream": f"scenario:{SCENARIO}", "worker": "w0", "incarnation": "1", "seq": 10**9, "line": 10**9,
    "stack_id": "scenario-1", "lines": [1, 2], "ts": datetime(2026, 1, 1),
}  # fmt: skip
"""A value for each parameter that a query may take; which rows come of it does not matter here."""
UNCITED = ("lines",)
"""Evidence queries whose rows no statement cites."""


def problems(path: Path) -> Iterator[str]:
    """What is wrong with a query file, one line each."""
    place = path.relative_to(ROOM.parent)
    sql = path.read_text(encoding="utf-8")
    if path.parent.name not in FOLDERS or path.parent.parent != ROOM:
        yield f"{place}: not in one of {', '.join(FOLDERS)}"
    try:
        query = queries.parse(path.stem, sql)
    except ValueError as error:
        yield f"{place}: {error}"
        return
    body = "\n".join(line.split("--", 1)[0] for line in sql.splitlines())
    used = set(PARAMETER.findall(body))
    if used != set(query.params):
        yield f"{place}: its header names the parameters {sorted(query.params)}, its SQL uses {sorted(used)}"
    elif unknown := used - VALUES.keys() - query.bound().keys():
        yield f"{place}: no value to try for {sorted(unknown)} (VALUES in tests/sql_headers.py)"
    else:
        yield from (f"{place}: {problem}" for problem in _columns(path.parent.name, query))
    if not sql.endswith("\n"):
        yield f"{place}: no line end at its end"


def source_of(view: queries.Query) -> str:
    """What stands behind FROM: its name, and for a macro the instant that nobody gave."""
    return f"{view.name}(NULL)" if "\nCREATE MACRO " in view.sql else view.name


def _columns(folder: str, query: queries.Query) -> Iterator[str]:
    """Where the columns that it returns are not the ones that its header explains, in their order."""
    if not query.columns:
        yield "its header explains no column"
        return
    explained = [name for name, _ in query.columns]
    if folder == "evidence" and query.name not in UNCITED and not {"stream", "seq"} <= set(explained):
        yield "an evidence query returns stream and seq, so that its rows can be cited"
    connection = _connection()
    try:
        if folder == "views":
            connection.execute(
                re.sub("^CREATE (VIEW|MACRO) ", r"CREATE OR REPLACE \1 ", query.sql, count=1, flags=re.MULTILINE)
            )
            cursor = connection.execute(f"SELECT * FROM {source_of(query)}")
        else:
            if folder == "evidence" and query.params and query.name not in UNCITED:
                connection.execute(query.of_many(), {name: [VALUES[name]] for name in query.params})
            cursor = connection.execute(query.sql, {name: VALUES.get(name) for name in query.params} | query.bound())
    except (duckdb.Error, ValueError) as error:
        yield str(error).splitlines()[0]
        return
    returned = [str(column[0]) for column in cursor.description or ()]
    if returned != explained:
        yield f"its header explains the columns {explained}, it returns {returned}"


@cache
def _connection() -> "DuckDBPyConnection":
    return connected(SCENARIO)


def main() -> int:
    """Print each problem; 1 if there is one."""
    files = sorted(ROOM.rglob("*.sql"))
    found = [problem for path in files for problem in problems(path)]
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"SQL headers: {len(files)} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
