"""Files that commands write: when they may be written, and the form of an event table, by its name."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    import duckdb

SUFFIXES = (".parquet", ".jsonl", ".csv")

OutputOption = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="What to write: FILE.parquet, FILE.jsonl (a row a line) or FILE.csv."
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Overwrite FILE.")]


def check(output: str, paths: list[str], force: bool) -> Path:
    """Refuse before anything is read.

    Args:
        output: As typed.
        paths: The inputs, as typed.
        force: Whether another file may be overwritten.

    Raises:
        OomctlError: If its name tells no form, or something is in its place.
    """
    target = Path(output)
    refuse_folder(target, "incident.parquet")
    if target.suffix not in SUFFIXES:
        raise OomctlError(
            f"cannot tell the form of the output ({output})", f"end its name in {', '.join(SUFFIXES)}", ExitCode.USAGE
        )
    refuse_inputs(target, paths)
    refuse_existing(target, force)
    return target


def refuse_inputs(target: Path, paths: list[str]) -> None:
    """Refuse to write over what is read, whatever was forced.

    Args:
        target: As typed.
        paths: The inputs, as typed.

    Raises:
        OomctlError: If it is one of them.
    """
    from oomctl.inputs import expand

    if not target.exists():
        return
    for path in expand(paths, lambda error: None):
        if Path(path).exists() and Path(path).samefile(target):
            raise OomctlError(f"output is one of the inputs ({target})", "write to another file", ExitCode.USAGE)


def refuse_folder(target: Path, example: str) -> None:
    """Refuse a folder.

    Args:
        target: As typed.
        example: Name of a file that could be written into it.

    Raises:
        OomctlError: If it is one.
    """
    if target.is_dir():
        raise OomctlError(f"is a folder ({target})", f"name a file in it: -o FOLDER/{example}", ExitCode.USAGE)


def refuse_existing(target: Path, force: bool) -> None:
    """Refuse to write over what is there.

    Raises:
        OomctlError: If there is something, and nobody said --force.
    """
    if target.exists() and not force:
        raise OomctlError(
            f"file already exists, will not overwrite without --force ({target})",
            "add --force, or write to another file",
            ExitCode.USAGE,
        )


def write(connection: "duckdb.DuckDBPyConnection", target: Path, rows: int) -> None:
    """Write an event table, in the form that the file's name tells, and say so on stderr.

    Args:
        connection: Holds the table.
        target: From `check`.
        rows: How many it has.
    """
    from oomctl import __version__
    from oomctl.cli.boundary import note
    from oomctl.cli.render.words import human, plural
    from oomctl.schemas import storage, text_forms

    if target.suffix == ".parquet":
        storage.write_parquet(connection, target, f"oomctl {__version__}")
    elif target.suffix == ".jsonl":
        text_forms.write_jsonl(connection, target)
    else:
        text_forms.write_csv(connection, target)
    note(f"wrote {plural(rows, 'row')}, {human(target.stat().st_size)} ({target})")
