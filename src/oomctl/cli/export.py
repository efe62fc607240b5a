"""`oomctl export`: a recording to hand to others, with `--redact` to strangers, or into a fleet's store."""

from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli import output as outputs
from oomctl.cli.options import PathsArgument
from oomctl.cli.output import ForceOption, OutputOption
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    import duckdb


def export(
    paths: PathsArgument,
    output: OutputOption,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="For strangers: all names become pseudonyms, private code and paths go."),
    ] = False,
    partition: Annotated[
        bool,
        typer.Option(
            "--partition", help="By date, node, worker and hour, into the folder or s3://BUCKET/PATH that -o names."
        ),
    ] = False,
    force: ForceOption = False,
) -> None:
    """Write a copy to hand to others, or for a fleet's store.

    Triage gives the same verdict on it. Credentials and prompts are left out in any case.
    """
    if partition and force:
        raise OomctlError("--force and --partition", "what lies there is completed, not replaced", ExitCode.USAGE)
    target = None if partition else outputs.check(output, paths, force)
    from oomctl.cli.boundary import note, warn
    from oomctl.pipeline import open_inputs
    from oomctl.redaction.table import redacted

    loaded = open_inputs(paths, warn)
    connection = loaded.connection
    try:
        if redact:
            connection = redacted(loaded.connection)
        if target is None:
            _partitioned(connection, output)
        else:
            outputs.write(connection, target, sum(entry.rows for entry in loaded.inputs))
    finally:
        connection.close()
        loaded.connection.close()
    if redact:
        note("look it through before you hand it on: a name that is an ordinary word may stand in it")
    else:
        note("it names hosts, users, paths, models and requests; --redact replaces them")


def _partitioned(connection: "duckdb.DuckDBPyConnection", output: str) -> None:
    from oomctl import __version__
    from oomctl.cli.boundary import note
    from oomctl.cli.render.words import plural
    from oomctl.fleet.partitioned import write_partitioned
    from oomctl.fleet.store import Store

    store = Store(output)
    done = write_partitioned(connection, store, f"oomctl {__version__}")
    note(
        f"wrote {plural(done.hours - done.unchanged, 'hour')} of {plural(done.workers, 'worker')}, "
        f"{done.unchanged} more were there already ({output})"
    )
