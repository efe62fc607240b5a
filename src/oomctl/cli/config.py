"""`oomctl config`: what a file and the environment set, and what they may."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from oomctl.cli.options import FormatOption, JsonOption, chosen_format, closest
from oomctl.schemas.errors import ExitCode, OomctlError

config = typer.Typer(
    name="config",
    help="Show what oomctl.toml and the environment set, and its schema.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@config.command("show")
def show(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]", help="Of this command alone, such as attach or capacity replay."),
    ] = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Print every option's value, and where it came from.

    A flag counts more than OOMCTL_COMMAND_OPTION in the environment, that more than the file, that more than the default.
    """
    from oomctl.cli.answers import chunks

    chosen = chosen_format(format, json)
    columns = ("option", "value", "from")
    sys.stdout.writelines(chunks(columns, _rows(context, tuple(command or ())), chosen))


@config.command("schema")
def schema(context: typer.Context) -> None:
    """Print the JSON Schema of oomctl.toml."""
    import json

    from oomctl.config.settings import schema as schema_of

    document = schema_of(context.find_root().command)
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _rows(context: typer.Context, command: tuple[str, ...]) -> Iterator[tuple[str, Any, str]]:
    from oomctl.config.resolve import resolve
    from oomctl.config.settings import settings

    root = context.find_root()
    found = resolve(root.command, command[:1], root.obj)
    known = [setting for setting in settings(root.command) if setting.command[: len(command)] == command]
    if not known:
        names = sorted({" ".join(setting.command) for setting in settings(root.command)})
        raise OomctlError(f"no command {' '.join(command)!r:.60}", closest(" ".join(command), names), ExitCode.USAGE)
    for setting in known:
        entry = found.get(setting.name)
        value = setting.default if entry is None else entry.value
        text = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
        yield setting.name, text, "default" if entry is None else entry.origin
