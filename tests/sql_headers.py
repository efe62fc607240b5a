"""Checks the header of every query file; `make check` runs it, and so does a test."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from oomctl import queries

ROOM = Path(__file__).parent.parent / "queries"
FOLDERS = ("views", "evidence", "postmortem")
PARAMETER = re.compile(r"\$([a-z_]\w*)")


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
    if not query.columns:
        yield f"{place}: its header explains no column"
    if not sql.endswith("\n"):
        yield f"{place}: no line end at its end"


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
