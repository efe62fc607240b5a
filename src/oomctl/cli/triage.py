"""`oomctl triage`: from a log or a recording to a proven verdict."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.options import (
    Format,
    FormatOption,
    JsonOption,
    PathsArgument,
    chosen_format,
    closest,
    draws_blocks,
    page_width,
    use_colour,
)
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.schemas.verdict import Incident, Triage

VERDICTS = ("any", "oom", "capacity_gate", "not_oom", "undetermined")


def triage(
    paths: PathsArgument,
    format: FormatOption = None,
    json: JsonOption = False,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="WHAT,...",
            help=f"Exit 1 if an incident matches: {', '.join(VERDICTS)}, or a class or code of `oomctl explain`.",
        ),
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="Only the newest start of a worker that failed again and again.")
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", metavar="FILE", help="What `ledger predict --json` said, for what no line prints."),
    ] = None,
) -> None:
    """Say which out-of-memory failure it was, with proof and cure."""
    from oomctl.cli.boundary import warn

    chosen = chosen_format(format, json)
    matches = _matcher(fail_on) if fail_on is not None else None
    from oomctl.cli.kept import read_ledger
    from oomctl.pipeline import triage_paths

    result = triage_paths(paths, last=last, warn=warn, ledger=None if ledger is None else read_ledger(ledger))
    found = matches is not None and any(map(matches, result.incidents))
    try:
        sys.stdout.write(_rendered(result, chosen))
    except BrokenPipeError:
        if not found:
            raise
    if found:
        raise typer.Exit(ExitCode.FINDINGS)


def _rendered(result: "Triage", chosen: Format) -> str:
    from oomctl.cli.render import data
    from oomctl.cli.render.text import document

    if chosen is Format.JSON:
        return document(result)
    if chosen is Format.JSONL:
        return data.triage_jsonl(result)
    if chosen is Format.CSV:
        return data.triage_csv(result)
    if chosen is Format.MD:
        from oomctl.cli.render.markdown import triage_md

        return triage_md(result)
    from oomctl.cli.render.page import triage_page

    return triage_page(result, page_width(), use_colour(), draws_blocks())


def _matcher(fail_on: str) -> "Callable[[Incident], bool]":
    """Whether an incident is one of those that --fail-on names."""
    from oomctl.schemas.verdict import CODES

    names = {code.lower(): oom_class for oom_class, code in CODES.items()} | {name: name for name in CODES}
    known = (*VERDICTS, *CODES, *CODES.values())
    wanted = set()
    for word in fail_on.split(","):
        word = word.strip()
        name = word.lower()
        if name not in VERDICTS and name not in names:
            raise OomctlError(f"--fail-on does not know {word!r}", closest(word, known), ExitCode.USAGE)
        wanted.add(names.get(name, name))
    return lambda incident: bool(wanted & {"any", incident.verdict or "undetermined", incident.oom_class})
