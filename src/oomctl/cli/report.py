"""`oomctl report`: the page that goes into the postmortem as it is."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oomctl.cli.options import PathsArgument
from oomctl.cli.output import refuse_existing, refuse_folder, refuse_inputs
from oomctl.schemas.errors import ExitCode, OomctlError


class ReportFormat(StrEnum):
    """How a report is written."""

    HTML = "html"
    MD = "md"
    JSON = "json"


def report(
    paths: PathsArgument,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write there, in the form of its ending.")
    ] = None,
    format: Annotated[ReportFormat | None, typer.Option("--format", help="A page, text for a ticket, or the data.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite that file.")] = False,
    last: Annotated[
        bool, typer.Option("--last", help="Only the newest start of a worker that failed again and again.")
    ] = False,
) -> None:
    """Write the verdict with charts, tables and SQL as one page.

    The page needs no network and loads nothing. Markdown goes without charts where vl-convert-python is not installed;
    with it, PNG files are written beside FILE.
    """
    from oomctl.cli.boundary import note, warn
    from oomctl.report.build import build
    from oomctl.report.forms import as_html, as_json, as_markdown

    endings = {".html": ReportFormat.HTML, ".htm": ReportFormat.HTML, ".md": ReportFormat.MD, ".json": ReportFormat.JSON}
    chosen = format or (endings.get(output.suffix.lower()) if output is not None else None) or ReportFormat.HTML
    if output is None and chosen is ReportFormat.HTML and sys.stdout.isatty():
        raise OomctlError("a page is not for a terminal", "add -o report.html, or --format md", ExitCode.USAGE)
    if output is not None:
        refuse_folder(output, "report.html")
        refuse_inputs(output, paths)
        refuse_existing(output, force)
    found = build(paths, warn, last)
    pictures: dict[str, bytes] = {}
    if chosen is ReportFormat.HTML:
        text = as_html(found)
    elif chosen is ReportFormat.JSON:
        text = as_json(found)
    else:
        text, pictures, said = as_markdown(found, output.stem if output is not None else None)
        if said:
            note(said)
    if output is None:
        sys.stdout.write(text)
        return
    from oomctl.schemas import whole

    whole.write(output, text.encode())
    for name, picture in pictures.items():
        whole.write(output.with_name(name), picture)
