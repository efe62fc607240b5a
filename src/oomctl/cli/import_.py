"""`oomctl import`: logs and recordings into one file, to keep and to query."""

from oomctl.cli import output as outputs
from oomctl.cli.options import PathsArgument
from oomctl.cli.output import ForceOption, OutputOption


def import_(paths: PathsArgument, output: OutputOption, force: ForceOption = False) -> None:
    """Keep logs and recordings as one file.

    Triage gives the same verdict on it.
    """
    target = outputs.check(output, paths, force)
    from oomctl.cli.boundary import warn
    from oomctl.pipeline import open_inputs

    loaded = open_inputs(paths, warn)
    try:
        outputs.write(loaded.connection, target, sum(entry.rows for entry in loaded.inputs))
    finally:
        loaded.connection.close()
