"""`oomctl import`: logs and recordings into one Parquet file, to keep and to query."""

from pathlib import Path
from typing import Annotated

import typer

from oomctl.cli.options import PathsArgument
from oomctl.schemas.errors import ExitCode, OomctlError


def import_(
    paths: PathsArgument,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")],
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite FILE.")] = False,
) -> None:
    """Keep logs and recordings as one Parquet file.

    Triage gives the same verdict on that file.
    """
    target = Path(output)
    check_target(target, paths, force)
    from oomctl import __version__
    from oomctl.cli.boundary import note, warn
    from oomctl.cli.render.words import human, plural
    from oomctl.pipeline import open_inputs
    from oomctl.schemas.storage import write_parquet

    loaded = open_inputs(paths, warn)
    try:
        write_parquet(loaded.connection, target, f"oomctl {__version__}")
    finally:
        loaded.connection.close()
    rows = sum(entry.rows for entry in loaded.inputs)
    note(f"wrote {plural(rows, 'row')}, {human(target.stat().st_size)} ({output})")


def check_target(target: Path, paths: list[str], force: bool) -> None:
    """Refuse before anything is read."""
    from oomctl.inputs import expand

    if target.is_dir():
        raise OomctlError(f"is a folder ({target})", "name a file in it: -o FOLDER/incident.parquet", ExitCode.USAGE)
    if not target.exists():
        return
    for path in expand(paths, lambda error: None):
        if Path(path).exists() and Path(path).samefile(target):
            raise OomctlError(f"output is one of the inputs ({target})", "write to another file", ExitCode.USAGE)
    if not force:
        raise OomctlError(
            f"file already exists, will not overwrite without --force ({target})",
            "add --force, or write to another file",
            ExitCode.USAGE,
        )
