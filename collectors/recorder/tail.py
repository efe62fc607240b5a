"""The worker's log, read as it grows, through the readers of logs.

What a log reader knows (prefixes, open tracebacks, lives) is not kept: after a restart the same bytes are read again, which
gives the same rows under the same numbers, and those that were recorded are left out. Where the file is not there any more
as it was (rotated, or too long to be read twice), a new stream begins where the old one ended.

What comes while it is followed gets the times that its lines lack (arrival).

A log that falls silent behind a traceback is asked for it: the process may have died. Where that was done is remembered, so
that it is done at the same places when the bytes are read again.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from oomctl.collectors.artifacts.logs import LogReading
from oomctl.collectors.recorder.arrival import Arrival
from oomctl.collectors.recorder.live import State
from oomctl.schemas.rows import Row

KEY = "log:"
ZONE = "zone:"
MAX_TWICE_BYTES = 512 << 20
"""A longer log is not read again after a restart."""
ROUND_BYTES = 4 << 20
"""Read in one round, so that the rings are not kept waiting."""
QUIET_ROUNDS = 3
"""Rounds without a new byte, after which a log counts as silent."""
MAX_RELEASES = 1000
"""A log with more is not read again after a restart."""


class LogTail:
    """Follows one file, through truncation and rotation by renaming.

    Args:
        path: The file; it need not be there yet.
        worker: What its rows call the worker, where the log itself does not name one.
        state: What an earlier recorder knew.

    Attributes:
        backlog: Whether what is read now was written before recording began.
        rotations: How often the file was truncated or replaced since recording began.
        now_us: The wall clock, set before each reading; None leaves the times as they are printed.
    """

    def __init__(self, path: Path, worker: str, state: State) -> None:
        self.rotations = 0
        self.now_us: int | None = None
        self._path = path
        self._worker = worker
        self._file = _Growing(path)
        self._arrival = Arrival(state.get(ZONE + str(path)))
        self._caught_up = self._file.size()
        known = state.get(KEY + str(path))
        self._stream, self._done, self._again, skip = str(path), 0, 0, 0
        self._releases: list[int] = []
        self._due: list[int] = []
        self._quiet = 0
        if known is not None:
            self._stream, identity, offset, seq, whole, releases = known
            if identity == self._file.identity and offset <= self._file.size() and whole and offset <= MAX_TWICE_BYTES:
                self._done, self._releases, self._due = seq, releases, list(releases)
            else:
                # Not the bytes that were read: go on behind them, or at the beginning of what took their place.
                skip = offset if identity == self._file.identity and offset <= self._file.size() else 0
                self._stream = _next(self._stream)
        else:
            self._again = self._file.size()
        self._whole = skip == 0
        self._seq = self._done
        self._file.seek(skip)
        self._reading = LogReading(cast(BinaryIO, self._file), self._stream)

    @property
    def backlog(self) -> bool:  # noqa: D102 - described above
        return self._file.offset < self._again

    def rows(self, limit: int) -> list[Row]:
        """What came since the last call, at most about `limit` rows."""
        before = self._file.offset
        self._file.allowance = min([ROUND_BYTES, *(due - before for due in self._due[:1])])
        rows = self._taken(self._reading.follow(), limit)
        if self._due and self._file.offset == self._due[0] and len(rows) < limit:
            del self._due[0]
            rows += self._taken(self._reading.release(), None)
        self._quiet = self._quiet + 1 if self._file.offset == before and not rows else 0
        if self._quiet >= QUIET_ROUNDS and self._reading.holds:
            self._releases.append(self._file.offset)
            rows += self._taken(self._reading.release(), None)
        self._whole = self._whole and self._file.rotations == 0 and len(self._releases) < MAX_RELEASES
        self.rotations = self._file.rotations
        return rows

    def finish(self) -> list[Row]:
        """The last rows, those of an open traceback too; nothing can be read after that."""
        rows: list[Row] = []
        while self._due:
            rows += self.rows(1 << 30)
        self._file.allowance = None
        return rows + self._taken(self._reading.follow(), None)

    def at(self) -> State:
        """How far it was read."""
        releases = self._releases if self._whole else []
        value = [self._stream, self._file.identity, self._file.offset, self._seq, self._whole, releases]
        return {KEY + str(self._path): value, ZONE + str(self._path): self._arrival.zone_us}

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _taken(self, given: Iterator[Row], limit: int | None) -> list[Row]:
        """At most `limit` of the rows, without those that an earlier recorder wrote."""
        rows: list[Row] = []
        for row in given:
            if row["seq"] > self._done:
                self._seq = row["seq"]
                if row["worker"] == self._stream:
                    row["worker"] = self._worker
                if self.now_us is not None and not self.backlog:
                    fresh = self._file.rotations > 0 or self._file.offset > self._caught_up
                    self._arrival.tell(row, self.now_us, fresh)
                rows.append(row)
                if limit is not None and len(rows) >= limit:
                    break
        return rows


class _Growing:
    """A binary file whose `read` gives None at its end, as long as there is an allowance at all.

    Attributes:
        allowance: Bytes that may still be read; None to be told the end.
        offset: Where it is in the file that it reads now.
        identity: (device, inode) of that file, None while there is none.
        rotations: How often another file took its place, or it was cut.
    """

    def __init__(self, path: Path) -> None:
        self.allowance: int | None = 0
        self.offset = 0
        self.identity: list[int] | None = None
        self.rotations = 0
        self._path = path
        self._file: BinaryIO | None = None
        self._open()

    def size(self) -> int:
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def seek(self, offset: int) -> None:
        if self._file is not None:
            self._file.seek(offset)
            self.offset = offset

    def read(self, size: int) -> bytes | None:
        if self.allowance is not None:
            if self.allowance <= 0:
                return None
            size = min(size, self.allowance)
        chunk = b"" if self._file is None else self._file.read(size)
        if not chunk and self._turned():
            chunk = b"" if self._file is None else self._file.read(size)
        if not chunk:
            return None if self.allowance is not None else b""
        self.offset += len(chunk)
        if self.allowance is not None:
            self.allowance -= len(chunk)
        return chunk

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _turned(self) -> bool:
        """At the end: whether the file was cut, or another one stands in its place, or it has come at last."""
        if self._file is not None and self.size() < self.offset:
            self.seek(0)
            self.rotations += 1
            return True
        try:
            found = self._path.stat()
        except OSError:
            return False
        if self.identity == [found.st_dev, found.st_ino]:
            return False
        first = self._file is None
        self.close()
        self._open()
        self.rotations += not first
        return self._file is not None

    def _open(self) -> None:
        try:
            self._file = self._path.open("rb", buffering=0)
        except OSError:
            return
        found = os.fstat(self._file.fileno())
        self.identity = [found.st_dev, found.st_ino]
        self.offset = 0


def _next(stream: str) -> str:
    base, mark, number = stream.rpartition("#")
    return f"{base}#{int(number) + 1}" if mark and number.isdecimal() else f"{stream}#2"
