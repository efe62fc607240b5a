"""`oomctl freeze`: a recording's minutes around an instant, as one incident file."""

import time
from pathlib import Path
from typing import Annotated

import typer

from oomctl.schemas.errors import OomctlError


def freeze(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A recording: the folder that attach writes.")],
    around: Annotated[str, typer.Option("--around", metavar="TIME", help="now, 15m (ago), or 2026-03-11T02:42:11Z.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")],
    minutes: Annotated[float, typer.Option("--minutes", metavar="N", min=0.1, help="Before and after.")] = 10.0,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite FILE.")] = False,
) -> None:
    """Keep a part of a recording as one file, before the budget takes it.

    It holds the minutes around TIME, and how the worker started.
    """
    from oomctl import __version__
    from oomctl.cli.boundary import note, warn
    from oomctl.cli.output import refuse_existing
    from oomctl.cli.render.words import human, plural
    from oomctl.cli.units import parse_instant
    from oomctl.collectors.recorder.contents import load
    from oomctl.collectors.recorder.folder import Folder, is_recording
    from oomctl.schemas.storage import connect, write_parquet

    middle_us = parse_instant(around, "--around", time.time_ns() // 1000)
    if not is_recording(folder):
        raise OomctlError(f"not a recording ({folder})", "give the folder that `oomctl attach -o DIR` writes")
    refuse_existing(output, force)
    span_us = int(minutes * 60e6)
    with connect() as connection:
        rows = load(connection, Folder(folder), warn, middle_us - span_us, middle_us + span_us)
        if not rows:
            raise OomctlError(f"nothing recorded around {around} ({folder})", "see `oomctl query DIR` for what there is")
        write_parquet(connection, output, f"oomctl {__version__}")
    note(f"wrote {plural(rows, 'row')}, {human(output.stat().st_size)} ({output})")
