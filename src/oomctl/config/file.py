"""oomctl.toml: read, and each of its values with the line that it stands in."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomctl.schemas.errors import ExitCode, OomctlError

MAX_BYTES = 1 << 20
_HEADER = re.compile(r"\[([^\[\]]+)\]")
_KEY = re.compile(r"([^=#]+)=")


@dataclass(frozen=True)
class Entry:
    """One value of a file.

    Attributes:
        path: The tables around it, and its key.
        value: As TOML has it.
        place: File and line.
    """

    path: tuple[str, ...]
    value: Any
    place: str


def read(path: Path) -> list[Entry]:
    """The values of a file, and its tables that hold none.

    Raises:
        OomctlError: If it cannot be read, or is no TOML.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _error(f"{(error.strerror or str(error)).lower()} ({path})") from None
    return parse(content, str(path))


def parse(content: bytes, name: str) -> list[Entry]:
    """The values in a file's bytes.

    Args:
        content: All of it, or more than MAX_BYTES.
        name: What to call it in errors and places.

    Raises:
        OomctlError: If it is too long, or no TOML.
    """
    if len(content) > MAX_BYTES:
        raise _error(f"more than {MAX_BYTES >> 20} MiB, which is no configuration ({name})")
    try:
        text = content.decode("utf-8")
        # A number of thousands of digits is a ValueError of Python's own, tables without end a RecursionError.
        values = list(_values(tomllib.loads(text), ()))
    except UnicodeDecodeError:
        raise _error(f"not UTF-8 ({name})") from None
    except (ValueError, RecursionError) as error:
        raise _error(f"no TOML: {str(error)[:200]} ({name})") from None
    lines = _lines(text)
    return [Entry(at, value, _place(name, at, lines)) for at, value in values]


def _values(table: dict[str, Any], around: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _values(value, (*around, key))
        else:
            yield (*around, key), value


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Where keys and tables stand that are written one a line. Only what TOML found as well is ever looked up here."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        if header := _HEADER.match(words):
            table = _path(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(words):
            found.setdefault((*table, *_path(key[1])), number)
    return found


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _place(name: str, at: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> str:
    number = next((lines[at[:depth]] for depth in range(len(at), 0, -1) if at[:depth] in lines), None)
    return name if number is None else f"{name}:{number}"


def _error(what: str) -> OomctlError:
    return OomctlError(what, "see `oomctl config schema`", ExitCode.USAGE)
