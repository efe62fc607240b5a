"""Live files: rows appended in frames, so that a cut at any byte costs the frame that it hits and nothing before it.

    file:    magic (8) | frame of the header | frames
    frame:   length (4) | crc32 of the payload (4) | payload: zstd of msgpack

The header's payload is a map that tells what the file is; a frame's payload is a map of `rows`, of `slots` (records of
rings, which are rows once they are decoded) and of `at`: what the recorder knows at that point (how far it has read each
source). What was read and how far are in one frame, so after a kill nothing is read twice and nothing is left out. Integers
are little-endian.

A frame that `append` returned from is in the kernel's page cache: it survives SIGKILL. It is on the disk after the next
`sync`, which the recorder calls every few seconds and which closing a file implies: that is what a node's crash may cost.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from oomctl.collectors.recorder.slots import Slots, all_rows
from oomctl.schemas.rows import Row
from oomctl.schemas.version import SCHEMA_VERSION

MAGIC = b"OOMCTLL\n"
FORMAT_VERSION = 2
SUFFIX = ".live"
FRAME = struct.Struct("<II")
MAX_FRAME_BYTES = 64 << 20
"""Packed or unpacked; a longer one is damage, and the recorder's own stay far below."""
MAX_HEADER_BYTES = 4 << 20
MAX_ROWS = 400_000
"""Of one frame, as rows; as slots, a hundredth of it."""
MAX_ROW_BYTES = 4 << 20
"""A row, or the slots of one ring, packed: 64 bytes of memory may stand behind one of msgpack."""
LEVEL = 3

State = dict[str, Any]
"""What the recorder knows at a point: source to how far it was read, and the like. None as a value takes a key away."""


class Header(msgspec.Struct, kw_only=True):
    """What a live file says of itself.

    Attributes:
        format: Of the frames.
        schema_version: Of the rows.
        writer: Program and version.
        worker: Whose recording it is.
        node: Host.
        number: Place among the files of its recording.
        ts: When it was begun, in microseconds since 1970, by the recorder's clock.
        at: What the recorder knew when it began this file.
    """

    format: int = FORMAT_VERSION
    schema_version: int = SCHEMA_VERSION
    writer: str
    worker: str
    node: str
    number: int
    ts: int
    at: State


class Frame(msgspec.Struct, kw_only=True):
    """Rows that were written at once, and what the recorder knew then.

    Attributes:
        rows: As rows.
        slots: As slots of rings; since version 2.
        at: What the recorder knew.
    """

    rows: list[Row] = []
    slots: list[Slots] = []
    at: State = {}

    def all_rows(self) -> Iterator[Row]:
        """All of them as rows, those of one ring in order."""
        return all_rows(self.rows, self.slots)

    def __len__(self) -> int:
        return len(self.rows) + sum(map(len, self.slots))


class LiveWriter:
    """Appends to a new live file, which its owner alone may read. It appears under its name with its header in it.

    Args:
        path: Must not exist.
        header: What to say of it.

    Raises:
        OSError: If it cannot be made; nothing is left then.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.header = header
        making = path.with_suffix(".making")
        making.unlink(missing_ok=True)
        self._file = os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._encoder = msgspec.msgpack.Encoder()
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._synced = self.size_bytes = 0
        try:
            self._write(MAGIC + self._framed(header))
            making.rename(path)
        except BaseException:
            os.close(self._file)
            making.unlink(missing_ok=True)
            raise

    def append(self, frame: Frame) -> None:
        """Add a frame, whole or not at all.

        Raises:
            OSError: If there is no room; the file is as it was before.
        """
        self._write(self._framed(frame))

    def sync(self) -> None:
        """Put what was appended onto the disk."""
        if self._synced < self.size_bytes:
            os.fdatasync(self._file)
            self._synced = self.size_bytes

    def close(self) -> None:
        """Sync, and give the file back."""
        try:
            self.sync()
        finally:
            os.close(self._file)

    def _framed(self, value: Header | Frame) -> bytes:
        payload = self._compressor.compress(self._encoder.encode(value))
        return FRAME.pack(len(payload), zlib.crc32(payload)) + payload

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self.size_bytes)
            raise
        self.size_bytes += len(data)


def apply(state: State, change: State) -> None:
    """Bring what the recorder knew up to date with a frame's `at`."""
    for key, value in change.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
