"""`oomctl export`: a recording to hand to others, with `--redact` to strangers."""

from pathlib import Path
from typing import Annotated

import typer

from oomctl.cli.import_ import check_target
from oomctl.cli.options import PathsArgument
from oomctl.schemas.errors import ExitCode, OomctlError

SUFFIXES = (".parquet", ".jsonl")


def export(
    paths: PathsArgument,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="What to write: FILE.parquet or FILE.jsonl.")
    ],
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Replace hosts, users, paths, models, requests and tenants by pseudonyms."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite FILE.")] = False,
) -> None:
    """Write a copy to hand to others.

    Triage gives the same verdict on it. Credentials and prompts are left out in any case.
    """
    target = Path(output)
    if target.suffix not in SUFFIXES:
        raise OomctlError(
            f"cannot tell the form of the output ({output})", f"end its name in {' or '.join(SUFFIXES)}", ExitCode.USAGE
        )
    check_target(target, paths, force)
    from oomctl import __version__
    from oomctl.cli.boundary import note, warn
    from oomctl.cli.render.words import human, plural
    from oomctl.export import redacted, write_jsonl
    from oomctl.pipeline import open_inputs
    from oomctl.schemas.storage import write_parquet

    loaded = open_inputs(paths, warn)
    connection = loaded.connection
    try:
        if redact:
            connection = redacted(loaded.connection)
        if target.suffix == ".parquet":
            write_parquet(connection, target, f"oomctl {__version__}")
        else:
            write_jsonl(connection, target)
    finally:
        connection.close()
        loaded.connection.close()
    count = sum(entry.rows for entry in loaded.inputs)
    note(f"wrote {plural(count, 'row')}, {human(target.stat().st_size)} ({output})")
    if redact:
        note("look it through before you hand it on: a name that no rule knows may stand in it")
    else:
        note("it names hosts, users, paths, models and requests; --redact replaces them")
