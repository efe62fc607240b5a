"""A recording's folder: what lies where, who writes it, and where the next recorder goes on.

    live/NNNNNNNN.live              segments, appended to; the newest is never removed
    hours/FIRST-LAST.parquet        the segments of these numbers, packed; the segments go once it is there
    hours/kept.parquet              what is left of hours that the budget took: how the workers started, what failed
    incidents/ID.parquet            frozen incidents
    lock                            held by the recorder that writes

What is made appears whole under its name, so a kill leaves a file of an earlier state, or both: a segment that an hour
covers is left out by every reader.
"""

import fcntl
import os
from dataclasses import dataclass, field
from pathlib import Path

from oomctl.collectors.recorder.live import MAGIC, SUFFIX, State, apply
from oomctl.collectors.recorder.live_reader import LiveReader
from oomctl.schemas.errors import ExitCode, OomctlError

KEPT = "kept.parquet"


@dataclass(frozen=True)
class Resumption:
    """What an earlier recorder left.

    Attributes:
        number: Of the next segment.
        state: What it knew last.
        torn: (file, bytes) of a frame that it did not finish.
    """

    number: int = 1
    state: State = field(default_factory=dict)
    torn: tuple[str, int] | None = None


class Folder:
    """A recording's folder, whether it is there or not.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live = root / "live"
        self.hours = root / "hours"
        self.incidents = root / "incidents"

    def prepare(self) -> None:
        """Make the folders, for their owner alone.

        Raises:
            OomctlError: If they cannot be made or written to.
        """
        try:
            for folder in (self.root, self.live, self.hours, self.incidents):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for leftover in (*self.live.glob("*.making"), *self.hours.glob(".*"), *self.incidents.glob(".*")):
                leftover.unlink(missing_ok=True)
            if not os.access(self.live, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise OomctlError(
                f"cannot record there: {error.strerror} ({self.root})",
                "choose a folder that you may write to",
                ExitCode.ENVIRONMENT,
            ) from error

    def lock(self) -> int:
        """Become the one recorder that writes here, until the descriptor is closed.

        Raises:
            OomctlError: If another one does.
        """
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise OomctlError(
                f"another recorder writes there ({self.root})",
                "end it first, or record into another folder",
                ExitCode.ENVIRONMENT,
            ) from None
        return descriptor

    def segment(self, number: int) -> Path:
        """Where a segment lies."""
        return self.live / f"{number:08}{SUFFIX}"

    def segments(self) -> list[Path]:
        """The segments that no hour covers, in order."""
        covered = max((last for _, last, _ in self.packed()), default=0)
        return [path for path in _numbered(self.live) if number_of(path) > covered]

    def covered(self) -> list[Path]:
        """Segments that an hour covers: left where a recorder was killed before it could remove them."""
        fresh = set(self.segments())
        return [path for path in _numbered(self.live) if path not in fresh]

    def packed(self) -> list[tuple[int, int, Path]]:
        """(first segment, last segment, file) of each hour, in order."""
        found = []
        for path in self.hours.glob("*-*.parquet"):
            first, _, last = path.stem.partition("-")
            if first.isdecimal() and last.isdecimal() and path.is_file():
                found.append((int(first), int(last), path))
        return sorted(found)

    def resume(self) -> Resumption:
        """Where the next recorder goes on: at the last whole frame of the newest segment."""
        torn: tuple[str, int] | None = None
        paths = _numbered(self.live)
        for path in reversed(paths):
            try:
                with path.open("rb") as file:
                    reader = LiveReader(file, path.name)
                    state = dict(reader.header.at)
                    for frame in reader.frames():
                        apply(state, frame.at)
            except OomctlError:
                continue
            if reader.torn_bytes:
                torn = path.name, reader.torn_bytes
            return Resumption(number_of(paths[-1]) + 1, state, torn)
        last = max((last for _, last, _ in self.packed()), default=0)
        return Resumption(max(last, number_of(paths[-1]) if paths else 0) + 1)


def number_of(path: Path) -> int:
    """A segment's number."""
    return int(path.stem)


def is_recording(root: Path) -> bool:
    """Whether a folder is a recording's: its newest segment begins as live files do."""
    try:
        paths = _numbered(root / "live")
        if not paths:
            return False
        with paths[-1].open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _numbered(folder: Path) -> list[Path]:
    """A pipe of such a name, in a folder of a stranger's, would be waited for without end."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal() and path.is_file())
