"""`oomctl triage`: from a log or a recording to a proven verdict."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.fleet import AddressOption, EngineOption, FindingsOption, JobsOption, triage_fleet
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
    from oomctl.schemas.verdict import Triage

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
    engine: EngineOption = None,
    address: AddressOption = None,
    jobs: JobsOption = None,
    findings: FindingsOption = None,
) -> None:
    """Say which out-of-memory failure it was, with proof and cure.

    With --engine, or of s3://BUCKET/PATH/**: each worker-hour of a fleet by itself, kept as a table, and summed up.
    """
    from oomctl.cli.boundary import warn

    chosen = chosen_format(format, json)
    matches = _matcher(fail_on) if fail_on is not None else None
    if engine is not None or any("://" in path for path in paths):
        if last or ledger is not None:
            raise OomctlError("--last and --ledger are of one worker", "leave them out for a fleet", ExitCode.USAGE)
        told = triage_fleet(paths, engine, address, jobs, findings, chosen)
        if matches is not None and any(matches(verdict, oom_class) for verdict, oom_class in told):
            raise typer.Exit(ExitCode.FINDINGS)
        return
    if (address, jobs, findings) != (None, None, None):
        raise OomctlError("--address, --jobs and --findings are of a fleet", "add --engine local or ray", ExitCode.USAGE)
    from oomctl.cli.kept import read_ledger
    from oomctl.pipeline import triage_paths

    result = triage_paths(paths, last=last, warn=warn, ledger=None if ledger is None else read_ledger(ledger))
    found = matches is not None and any(matches(item.verdict, item.oom_class) for item in result.incidents)
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


def _matcher(fail_on: str) -> "Callable[[str | None, str | None], bool]":
    """Whether an incident of that verdict and class is one of those that --fail-on names."""
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
    return lambda verdict, oom_class: bool(wanted & {"any", verdict or "undetermined", oom_class})
