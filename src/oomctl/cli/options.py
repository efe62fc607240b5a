"""Options that several commands share, and how they are read."""

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from oomctl.schemas.errors import ExitCode, OomctlError


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    MD = "md"


class LogFormat(StrEnum):
    """How a command that runs for days tells what happens."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[Format | None, typer.Option("--format", help="How to print: table is for reading.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
PathsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Logs or Parquet recordings: files, globs, folders (with their subfolders' files), or - for stdin.",
    ),
]


NEAREST = 3
FEW = 24
"""Words that a hint may list."""


def chosen_format(given: Format | None, json: bool) -> Format:
    """--format, or --json for short; a table by default."""
    refuse_two(given, json)
    return Format.JSON if json else given or Format.TABLE


def refuse_two(given: StrEnum | None, json: bool) -> None:
    """--json beside another --format.

    Raises:
        OomctlError: If both are given.
    """
    if json and given not in (None, Format.JSON):
        raise OomctlError(
            f"--json and --format {given.value if given else ''} contradict each other",
            "leave one of them out",
            ExitCode.USAGE,
        )


def closest(word: str, known: Sequence[str]) -> str:
    """A hint: the nearest known words, those that begin so first; all of them where they are few."""
    from difflib import get_close_matches

    names = [name.lower() for name in known]
    begin = sorted((name for name in names if word and name.startswith(word.lower())), key=len)
    near = list(dict.fromkeys([*begin, *get_close_matches(word.lower(), names, n=NEAREST)]))[:NEAREST]
    mean = [f"did you mean {' or '.join(near)}?"] if near else []
    return " ".join(mean + ([f"known: {', '.join(known)}"] if len(known) <= FEW else []))


def use_colour() -> bool:
    """Colour only on a terminal that can, and only if NO_COLOR (https://no-color.org) is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def page_width() -> int:
    """Columns of the terminal, or of COLUMNS; 100 where neither tells; 40 to 140, since longer lines read badly."""
    from shutil import get_terminal_size

    return min(max(get_terminal_size((100, 24)).columns, 40), 140)


def draws_blocks() -> bool:
    """Whether stdout's encoding has block characters for bars."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
