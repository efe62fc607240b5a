"""`oomctl export`: a recording to hand to others, with `--redact` to strangers."""

from typing import Annotated

import typer

from oomctl.cli import output as outputs
from oomctl.cli.options import PathsArgument
from oomctl.cli.output import ForceOption, OutputOption


def export(
    paths: PathsArgument,
    output: OutputOption,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="For strangers: all names become pseudonyms, private code and paths go."),
    ] = False,
    force: ForceOption = False,
) -> None:
    """Write a copy to hand to others.

    Triage gives the same verdict on it. Credentials and prompts are left out in any case.
    """
    target = outputs.check(output, paths, force)
    from oomctl.cli.boundary import note, warn
    from oomctl.pipeline import open_inputs
    from oomctl.redaction.table import redacted

    loaded = open_inputs(paths, warn)
    connection = loaded.connection
    try:
        if redact:
            connection = redacted(loaded.connection)
        outputs.write(connection, target, sum(entry.rows for entry in loaded.inputs))
    finally:
        connection.close()
        loaded.connection.close()
    if redact:
        note("look it through before you hand it on: a name that is an ordinary word may stand in it")
    else:
        note("it names hosts, users, paths, models and requests; --redact replaces them")
