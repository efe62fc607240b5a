"""`oomctl query`: what people ask of an incident, by name or in SQL."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.answers import TABLE_ROWS, AnswerFormat, Answers
from oomctl.cli.options import JsonOption, closest
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.cli.questions import Questions

SECONDS = 60.0

AtOption = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="Of a named query: the instant asked about, in UTC.")
]
WindowOption = Annotated[
    str | None, typer.Option("--window-s", metavar="SECONDS", help="Of a named query: how far it looks back.")
]
RequestOption = Annotated[
    str | None, typer.Option("--request", metavar="ID", help="Of a named query: the request asked about.")
]


def query(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="A recording, a log, a folder, or -.")] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A named query; without any question, they are listed.")
    ] = None,
    command: Annotated[
        str | None, typer.Option("-c", "--command", metavar="SQL", help="One SELECT, in DuckDB's dialect.")
    ] = None,
    sql_file: Annotated[
        str | None, typer.Option("-f", "--file", metavar="FILE.sql", help="The same from a file, or - for stdin.")
    ] = None,
    prompt: Annotated[bool, typer.Option("-i", "--prompt", help="Ask question after question.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the named queries, and stop.")] = False,
    show: Annotated[
        str | None, typer.Option("--show", metavar="NAME", help="Print a named query with its columns, and stop.")
    ] = None,
    at: AtOption = None,
    window_s: WindowOption = None,
    request: RequestOption = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="The same for any parameter.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, metavar="N", help=f"At most N rows, 0 for all. [terminal: {TABLE_ROWS}]"),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="Stop then; 0 for never.")
    ] = SECONDS,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write there, in the form of its ending.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite that file.")] = False,
    format: Annotated[AnswerFormat | None, typer.Option("--format", help="How to print: table is for reading.")] = None,
    json: JsonOption = False,
) -> None:
    """Ask a recording, a log or a snapshot, by name or in SQL.

    A query whose source was not recorded says so, and which collector would have told.
    `oomctl schema events --sql` shows the tables and columns that SQL may read; it can reach nothing else.
    """
    answers = Answers(format, json, output, force, limit)
    if show is not None:
        _show(show, answers)
        return
    asked = [word for word, given in (("NAME", name), ("-c", command), ("-f", sql_file), ("-i", prompt or None)) if given]
    if len(asked) > 1:
        what = "both a named query and -c" if asked == ["NAME", "-c"] else f"several questions: {', '.join(asked)}"
        raise OomctlError(what, "leave all but one out", ExitCode.USAGE)
    if file is None:
        if not list_:
            raise OomctlError("no file to ask", "oomctl query FILE NAME; --list shows the names", ExitCode.USAGE)
        answers.give_rows(*_catalogue())
        return
    if prompt and output is not None:
        raise OomctlError("-o takes one answer", "leave out -i or -o", ExitCode.USAGE)
    given = {"at": at, "window_s": window_s, "request": request}
    wanted = {key: value for key, value in given.items() if value is not None} | _pairs(param or [])
    if name is not None:
        _known(name, wanted)
    elif wanted and not prompt:
        raise OomctlError(f"{next(iter(wanted))} is a parameter of named queries", "name one", ExitCode.USAGE)
    if sql_file is not None:
        command = _read(sql_file)
    questions = _open(file, timeout)
    try:
        if prompt:
            from oomctl.cli.prompt import ask_on

            ask_on(questions, answers)
        elif name is not None:
            questions.named(name, wanted, answers)
        elif command is not None:
            questions.free(command, answers)
        else:
            answers.give_rows(*questions.catalogue())
    finally:
        questions.close()


def _open(file: str, timeout: float) -> "Questions":
    from oomctl.cli.boundary import warn
    from oomctl.cli.questions import Questions
    from oomctl.pipeline import open_inputs

    return Questions(open_inputs([file], warn).connection, timeout or None)


def _catalogue() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    from oomctl import queries

    found = (queries.load("postmortem", name) for name in queries.names("postmortem"))
    return ("name", "title", "needs"), [
        (query.name, query.title, "; ".join(need.collector for need in query.needs)) for query in found
    ]


def _show(name: str, answers: Answers) -> None:
    from oomctl import queries

    found = queries.load("postmortem", _known(name, {}))
    if answers.form in (AnswerFormat.JSON, AnswerFormat.JSONL):
        from oomctl.cli.render.text import json_line

        fields = {
            "name": found.name,
            "title": found.title,
            "needs": [{"any_of": [str(term) for term in need.any_of], "collector": need.collector} for need in found.needs],
            "parameters": [
                {"name": each.name, "default": each.default, "meaning": each.meaning} for each in found.parameters
            ],
            "columns": [{"name": column, "meaning": meaning} for column, meaning in found.columns],
            "portable": found.portable,
            "sql": found.sql,
        }
        sys.stdout.write(json_line(fields))
    else:
        sys.stdout.write(found.sql)


def _pairs(words: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise OomctlError(f"{word!r} is not NAME=VALUE", "write --param NAME=VALUE", ExitCode.USAGE)
        pairs[key] = value
    return pairs


def _known(name: str, given: dict[str, str]) -> str:
    """The name of a query that takes these parameters.

    Raises:
        OomctlError: If there is none of that name, or it does not take one of them.
    """
    from oomctl import queries

    try:
        found = queries.load("postmortem", name)
    except KeyError:
        hint = closest(name, queries.names("postmortem")) or "`oomctl query --list` names them"
        raise OomctlError(f"no query named {name!r}", hint, ExitCode.USAGE) from None
    for key in given:
        if key not in found.params:
            takes = ", ".join(f"--{known.replace('_', '-')}" for known in found.params) or "none"
            raise OomctlError(f"query {name} has no parameter {key!r}", f"its parameters: {takes}", ExitCode.USAGE)
    return name


def _read(path: str) -> str:
    """SQL from a file."""
    from oomctl.inputs import STDIN, unreadable

    if path == STDIN:
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise OomctlError(f"not UTF-8 text ({path})", "save it as UTF-8") from error
