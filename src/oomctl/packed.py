"""Rotated logs in an archive: put aside as they come, and given back as one stream when all of a log are there."""

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from oomctl import rotation
from oomctl.inputs import STDIN, label, opened
from oomctl.schemas.errors import OomctlError

MAX_KEPT_BYTES = 4 << 30
"""Of rotated files that are put aside, unpacked; beyond, each is read by itself."""


class Rotated:
    """The rotated logs of one archive.

    Args:
        path: Of the archive. What cannot be read twice has none.
    """

    def __init__(self, path: str) -> None:
        self._sets = {name: group for group in _sets(path) for name in group}
        self._kept: dict[str, BinaryIO] = {}
        self._left = MAX_KEPT_BYTES
        self._files = ExitStack()

    def __enter__(self) -> "Rotated":
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def takes(self, name: str) -> bool:
        """Whether a member is a part of a rotated log."""
        return name in self._sets and self._left > 0

    def keep(self, name: str, stream: io.BufferedReader) -> rotation.Chain | None:
        """Put a member aside.

        Returns:
            The log, where this was the last of its parts.
        """
        file = self._files.enter_context(tempfile.TemporaryFile(prefix="oomctl-"))  # noqa: SIM115  the stack closes it
        shutil.copyfileobj(stream, file)
        self._left -= file.tell()
        self._kept[name] = cast(BinaryIO, file)
        parts = self._sets[name]
        return self._chain(parts) if all(part in self._kept for part in parts) else None

    def rest(self) -> Iterator[rotation.Chain]:
        """The logs of which the archive did not give every part."""
        for parts in {id(group): group for group in self._sets.values()}.values():
            found = [part for part in parts if part in self._kept]
            if found:
                yield self._chain(found)

    def _chain(self, parts: list[str]) -> rotation.Chain:
        files = {part: self._kept.pop(part) for part in parts}

        @contextmanager
        def part(name: str) -> Iterator[io.BufferedReader | None]:
            files[name].seek(0)
            yield cast(io.BufferedReader, files[name])

        return rotation.Chain(parts, part)


def _sets(path: str) -> list[list[str]]:
    """The rotated logs by the names in an archive, which is read through for them; none where it is no archive."""
    from oomctl.collectors.artifacts.unpack import members

    names: list[str] = []
    if path == STDIN or not Path(path).is_file():
        return []
    try:
        with opened(path) as file:
            for name, _, _ in members(file, label(path)):
                if name == label(path):
                    return []
                names.append(name)
    except (OomctlError, OSError):
        pass  # told when it is read
    return [group for group in rotation.sets(names) if len(group) > 1]
