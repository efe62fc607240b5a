"""Rotated logs: `x.log.2.gz`, `x.log.1` and `x.log` are one log, oldest first."""

import io
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePath

_PACKED = r"(?:\.(?:gz|zst|xz|bz2))?"
_DATE = r"(?P<date>\d{4}-?\d\d-?\d\d(?:[-_T.]?\d\d[-:]?\d\d(?:[-:]?\d\d)?)?)"
_NUMBERED = re.compile(rf"(?P<base>.+)\.(?P<number>\d{{1,3}}){_PACKED}")
_DATED = re.compile(rf"(?P<base>.+)[-.]{_DATE}{_PACKED}")
_DATED_INSIDE = re.compile(rf"(?P<stem>.+)[-.]{_DATE}(?P<suffix>\.(?:log|txt|out|err)){_PACKED}")


@dataclass(frozen=True)
class _Age:
    """Where a rotated file stands: by its date, or by its number, which grows as files get older."""

    base: str
    order: tuple[int, str, int]


def sets(paths: Sequence[str]) -> list[list[str]]:
    """The paths, those of one log together, oldest first, in the place of the first of them.

    Files are rotated ones only where the one that is still written is given too: `worker.1` and `worker.2` may be ranks.
    """
    given = set(paths)
    ages = {path: age for path in paths if (age := _age(path)) is not None and age.base in given}
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(ages[path].base if path in ages else path, []).append(path)
    return [sorted(group, key=lambda path: ages[path].order if path in ages else (2, "", 0)) for group in found.values()]


def _age(path: str) -> _Age | None:
    """A rotated file's place, by its name as logrotate, Python's logging, Docker and the kubelet give it."""
    place, _, name = path.rpartition("/")
    folder = f"{place}/" if "/" in path else ""
    dated = _DATED.fullmatch(name)
    if dated is not None:
        return _Age(folder + dated["base"], (0, re.sub(r"\D", "", dated["date"]), 0))
    inside = _DATED_INSIDE.fullmatch(name)
    if inside is not None:
        return _Age(folder + inside["stem"] + inside["suffix"], (0, re.sub(r"\D", "", inside["date"]), 0))
    numbered = _NUMBERED.fullmatch(name)
    if numbered is not None and PurePath(numbered["base"]).suffix:
        return _Age(folder + numbered["base"], (1, "", -int(numbered["number"])))
    return None


class Chain(io.RawIOBase):
    """Several files as one stream, each read when its turn comes; a line never goes on in the next file.

    Args:
        names: What they are called.
        opened: Opens one by its name; what cannot be opened is reported there, and is None.

    Attributes:
        names: As given, oldest first.
    """

    def __init__(
        self, names: Sequence[str], opened: Callable[[str], AbstractContextManager[io.BufferedReader | None]]
    ) -> None:
        super().__init__()
        self.names = tuple(names)
        self._starts = [0]
        self._lines = 0
        self._pieces = self._read(opened)
        self._rest = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read on."""
        if not self._rest:
            self._rest = next(self._pieces, b"")
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)

    def place_of(self, line: int) -> tuple[str, int]:
        """(file, line of it) of a line of the whole, counted from 1."""
        number = bisect_right(self._starts, line - 1) - 1
        return self.names[number], line - self._starts[number]

    def _read(self, opened: Callable[[str], AbstractContextManager[io.BufferedReader | None]]) -> Iterator[bytes]:
        for number, name in enumerate(self.names):
            last = b"\n"
            with opened(name) as file:
                while file is not None and (piece := file.read(1 << 16)):
                    self._lines += piece.count(b"\n")
                    last = piece[-1:]
                    yield piece
            if last != b"\n":
                self._lines += 1
                yield b"\n"
            if number + 1 < len(self.names):
                self._starts.append(self._lines)
