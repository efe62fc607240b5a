"""The entry point: it names the commands, and loads nothing that `--help` does not need.

Every command imports its work inside its body, because duckdb, msgspec and the like cost more than all of typer.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from oomctl.cli import attach, doctor, explain, export, fleet, freeze, import_, query, report, schema, snapshot, top, triage
from oomctl.cli.boundary import guard
from oomctl.cli.capacity import capacity
from oomctl.cli.config import config
from oomctl.cli.ledger import ledger
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.config.resolve import Set

EPILOG = (
    "Exit status: 0 ran; 1 only under --fail-on or by ledger check; 2 usage; 3 unreadable input; "
    "4 environment; 70 internal; 130 interrupted; 143 terminated."
)

_HELP = frozenset({"-h", "--help", "--version"})

app = typer.Typer(
    name="oomctl",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("triage")(triage.triage)
app.command("attach")(attach.attach)
app.command("doctor")(doctor.doctor)
app.command("freeze")(freeze.freeze)
app.command("import")(import_.import_)
app.command("export")(export.export)
app.command("query")(query.query)
app.command("report")(report.report)
app.command("top")(top.top)
app.command("fleet")(fleet.fleet)
app.command("snapshot")(snapshot.snapshot)
app.command("explain")(explain.explain)
app.add_typer(ledger)
app.add_typer(capacity)
app.add_typer(config)
app.command("schema")(schema.schema)


def _print_version(wanted: bool) -> None:
    if wanted:
        from oomctl import __version__

        sys.stdout.write(f"oomctl {__version__}\n")
        raise typer.Exit


@app.callback(epilog=EPILOG)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Take options from it; may stand anywhere. [OOMCTL_CONFIG, ./oomctl.toml]"
        ),
    ] = None,
) -> None:
    """Explain and prevent GPU out-of-memory failures of LLM inference workers."""


def run(arguments: list[str]) -> int:
    """Run one command line.

    Args:
        arguments: What follows the program's name.

    Returns:
        The exit status (oomctl.schemas.errors.ExitCode).
    """
    debug, rest = _take_debug(arguments)
    command = typer.main.get_command(app)

    def invoke(words: list[str]) -> int:
        named, words = _take_config(words)
        found = _configured(command, words, named)
        # Not command.main: that ends a broken pipe with status 1, and replaces sys.stdout.
        try:
            with command.make_context("oomctl", words, default_map=_default_map(found, words), obj=named) as context:
                command.invoke(context)
        except typer.Exit as end:
            return end.exit_code
        except OomctlError as error:
            if not found:
                raise
            from oomctl.config.resolve import blamed

            raise blamed(found, words, error) from error
        return 0

    def body() -> int:
        if rest:
            return invoke(rest)
        from contextlib import redirect_stdout

        with redirect_stdout(sys.stderr):
            invoke(["--help"])
        return 2

    return guard(body, debug)


def main(arguments: list[str] | None = None) -> NoReturn:
    """What `oomctl` and `python -m oomctl` call; ends the process."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _configured(command: Any, words: list[str], named: Path | None) -> "dict[str, Set]":
    """What a file or the environment sets. Help is never in the way of one that is broken, nor `config` itself."""
    from oomctl.config import is_set

    if words[:1] == ["config"] or not _HELP.isdisjoint(words) or not (named or is_set(words)):
        return {}
    from oomctl.config.resolve import resolve

    return resolve(command, words, named)


def _default_map(found: "dict[str, Set]", words: list[str]) -> dict[str, Any] | None:
    if not found:
        return None
    from oomctl.config.resolve import default_map

    return default_map(found, words)


def _take_config(words: list[str]) -> tuple[Path | None, list[str]]:
    """--config FILE may stand anywhere before `--` too."""
    end = words.index("--") if "--" in words else len(words)
    for at, word in enumerate(words[:end]):
        flag, is_one, path = word.partition("=")
        if flag == "--config":
            used = 1 if is_one else 2
            path = path if is_one else "".join(words[at + 1 : end][:1])
            if not path:
                raise OomctlError("option '--config' requires a file", "see `oomctl --help`", ExitCode.USAGE)
            return Path(path), words[:at] + words[at + used :]
    return None, words


def _take_debug(arguments: list[str]) -> tuple[bool, list[str]]:
    """--debug may stand anywhere before `--`, since one adds it to the end of a line that has just failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head = [argument for argument in arguments[:end] if argument != "--debug"]
    return len(head) < end, head + arguments[end:]
