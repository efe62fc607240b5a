"""Where the recorder's rows go: the newest segment, begun anew by size and age; a frame that does not fit is held."""

from pathlib import Path

from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.folder import Folder, Resumption
from oomctl.collectors.recorder.live import Frame, Header, LiveWriter, State, apply

SEGMENT_BYTES = 32 << 20
SEGMENT_S = 600.0
SYNC_S = 5.0


class Store:
    """Appends frames.

    Args:
        folder: The recording's; prepared.
        resumption: Where an earlier recorder stopped.
        clock: For ages.
        names: (writer, worker, node) for the headers.

    Attributes:
        state: What is known as of the last frame.
        held: A frame that could not be written, for want of room or of permission; nothing else is written before it.
        problem: Why.
    """

    def __init__(self, folder: Folder, resumption: Resumption, clock: Clock, names: tuple[str, str, str]) -> None:
        self.state: State = dict(resumption.state)
        self.held: Frame | None = None
        self.problem: str | None = None
        self._folder = folder
        self._clock = clock
        self._names = names
        self._number = resumption.number
        self._segment: LiveWriter | None = None
        self._begun_s = self._synced_s = clock.monotonic_s()

    @property
    def path(self) -> Path | None:
        """The segment that is written."""
        return None if self._segment is None else self._segment.path

    def write(self, frame: Frame) -> bool:
        """Append a frame; False if it is held instead, and is to be tried again by `retry`."""
        self.held = frame
        return self.retry()

    def retry(self) -> bool:
        """Try to write what is held; True if nothing is held any more."""
        if self.held is None:
            return True
        try:
            if self._segment is None:
                self._begin()
            assert self._segment is not None
            self._segment.append(self.held)
        except OSError as error:
            self.problem = error.strerror or str(error)
            return False
        apply(self.state, self.held.at)
        self.held = self.problem = None
        return True

    def upkeep(self) -> bool:
        """Sync, and end the segment where it is large or old enough; True if it ended."""
        now = self._clock.monotonic_s()
        if self._segment is None or self.held is not None:
            return False
        try:
            if self._segment.size_bytes >= SEGMENT_BYTES or now - self._begun_s >= SEGMENT_S:
                old = self._segment
                self._begin()  # first the new one: the newest segment says where to go on
                old.close()
                return True
            if now - self._synced_s >= SYNC_S:
                self._synced_s = now
                self._segment.sync()
        except OSError as error:
            self.problem = error.strerror or str(error)
        return False

    def sync(self) -> None:
        """Put what was written onto the disk."""
        if self._segment is not None:
            self._segment.sync()

    def close(self) -> None:
        """End the segment."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _begin(self) -> None:
        writer, worker, node = self._names
        header = Header(
            writer=writer, worker=worker, node=node, number=self._number, ts=self._clock.wall_us(), at=dict(self.state)
        )
        self._segment = LiveWriter(self._folder.segment(self._number), header)
        self._number += 1
        self._begun_s = self._synced_s = self._clock.monotonic_s()
