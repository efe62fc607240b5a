"""`oomctl query`: SQL over the event table of a recording or a log."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oomctl.cli.options import Format, FormatOption, JsonOption, chosen_format, closest, page_width, use_colour
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.cli.sql import Result

TABLE_ROWS = 1000
"""So many rows are printed as a table; more is for a program, and those formats have no limit of their own."""


def query(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A Parquet recording, a log, a folder, or -.")],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A named query; without it and -c, they are listed.")
    ] = None,
    command: Annotated[
        str | None, typer.Option("-c", "--command", metavar="SQL", help="One SQL statement, in DuckDB's dialect.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="A named query's parameter.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, metavar="N", help=f"At most N rows, 0 for all. [table: {TABLE_ROWS}]"),
    ] = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Ask a recording or a log in SQL.

    `oomctl schema events --sql` shows the tables and columns.
    """
    chosen = chosen_format(format, json)
    if command is not None and name is not None:
        raise OomctlError("both a named query and -c", "leave one of them out", ExitCode.USAGE)
    if command is None and name is None:
        from oomctl.inputs import require

        require(file)
        sys.stdout.writelines(chunks(("name", "title"), _titles(), chosen))
        return
    sql, parameters = (command, {}) if command is not None else _named(name or "", param or [])
    from oomctl import queries
    from oomctl.cli import sql as runner
    from oomctl.cli.boundary import warn
    from oomctl.pipeline import open_inputs

    if limit is None and chosen is Format.TABLE:
        limit = TABLE_ROWS
    loaded = open_inputs([file], warn)
    try:
        queries.install(loaded.connection)
        _print(runner.run(loaded.connection, sql, parameters), chosen, limit or None)
    finally:
        loaded.connection.close()


def _titles() -> list[tuple[str, str]]:
    from oomctl import queries

    return [(name, queries.load("postmortem", name).title) for name in queries.names("postmortem")]


def _named(name: str, given: list[str]) -> tuple[str, dict[str, str]]:
    """A named query's SQL and its parameters."""
    from oomctl import queries

    try:
        found = queries.load("postmortem", name)
    except KeyError:
        hint = closest(name, queries.names("postmortem"))
        raise OomctlError(f"no query named {name!r}", hint, ExitCode.USAGE) from None
    parameters = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or key not in found.params:
            takes = ", ".join(f"{known}=VALUE" for known in found.params) or "none"
            raise OomctlError(f"query {name} has no parameter {word!r}", f"its parameters: {takes}", ExitCode.USAGE)
        parameters[key] = value
    for key in found.params:
        if key not in parameters:
            raise OomctlError(f"query {name} needs {key}", f"add --param {key}=VALUE", ExitCode.USAGE)
    return found.sql, parameters


def _print(result: "Result", chosen: Format, limit: int | None) -> None:
    from oomctl.cli.boundary import note

    sys.stdout.writelines(chunks(result.columns, result.rows(limit), chosen))
    if limit is not None and result.more():
        sys.stdout.flush()
        note(f"only the first {limit:,} rows are shown; --limit 0 shows all, --limit N the first N")


def chunks(columns: Sequence[str], rows: Iterable[Sequence[Any]], chosen: Format) -> Iterator[str]:
    """Rows in the format that was chosen."""
    from oomctl.cli.render import rows as render

    if chosen is Format.JSON:
        return render.rows_json(columns, rows)
    if chosen is Format.JSONL:
        return render.rows_jsonl(columns, rows)
    if chosen is Format.CSV:
        return render.rows_csv(columns, rows)
    if chosen is Format.MD:
        return render.rows_md(columns, rows)
    # Only a terminal is too narrow: through a pipe every cell stays whole, as in CSV.
    width = page_width() if sys.stdout.isatty() else None
    return render.rows_table(columns, list(rows), width, use_colour())
