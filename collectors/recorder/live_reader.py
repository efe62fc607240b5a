"""Reading live files (`live.py`), also while they are written and whoever wrote them: each frame that is whole."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Annotated, BinaryIO, TypeVar

import msgspec
import zstandard

from oomctl.collectors.recorder.live import (
    FORMAT_VERSION,
    FRAME,
    MAGIC,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MAX_ROW_BYTES,
    MAX_ROWS,
    Frame,
    Header,
)
from oomctl.collectors.recorder.slots import Slots
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.events import COMMON_NAMES
from oomctl.schemas.rows import Row, row_of
from oomctl.schemas.version import SCHEMA_VERSION

T = TypeVar("T")


class LiveReader:
    """The frames of a live file, as far as they are whole; the file may still be written.

    Args:
        file: At its beginning.
        name: What to call it in errors.

    Attributes:
        header: What it says of itself.
        torn_bytes: What stood behind the last whole frame; complete when `frames` or `rows` has ended.
        odd_rows: What stood in place of rows and is none: our recorder writes no such thing; complete likewise.

    Raises:
        OomctlError: If it is no live file, has no whole header, or is of a newer version.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.torn_bytes = self.odd_rows = 0
        if file.read(len(MAGIC)) != MAGIC:
            raise OomctlError(f"not a live file of oomctl ({name})", "give the folder that `oomctl attach` writes")
        payload = self._payload()
        if payload is None or len(payload) > MAX_HEADER_BYTES:
            raise OomctlError(f"a live file whose header is not whole ({name})", "it holds nothing: delete it")
        try:
            versions = msgspec.msgpack.decode(payload, type=_Versions)
            if versions.format > FORMAT_VERSION or versions.schema_version > SCHEMA_VERSION:
                raise OomctlError(
                    f"a live file of version {versions.format}.{versions.schema_version} is newer than this oomctl reads, "
                    f"{FORMAT_VERSION}.{SCHEMA_VERSION} ({name})",
                    "upgrade oomctl: pip install -U oomctl",
                )
            self.header = msgspec.msgpack.decode(payload, type=Header)
        except msgspec.MsgspecError as error:
            raise OomctlError(
                f"a live file with a strange header ({name}): {error}", "it was not made by oomctl"
            ) from error

    def frames(self) -> Iterator[Frame]:
        """Each whole frame, in order: for the recorder, which wrote them."""
        return self._decoded(Frame)

    def rows(self) -> Iterator[Row]:
        """The rows of the whole frames, in order, whoever wrote them: each one that the event table can hold."""
        for frame in self._decoded(_Packed):
            for raw in frame.slots:
                slots = _unpacked(raw, Slots)
                if slots is None or not COMMON_NAMES.issuperset(slots.common):
                    self.odd_rows += 1
                else:
                    yield from self._good(slots.rows())
            yield from self._good(_unpacked(raw, Row) for raw in frame.rows)

    def _good(self, records: Iterable[Row | None]) -> Iterator[Row]:
        for record in records:
            row = row_of(record)
            if row is None:
                self.odd_rows += 1
            else:
                yield row

    def _decoded(self, type_: type[T]) -> Iterator[T]:
        decoder = msgspec.msgpack.Decoder(type_)
        while (payload := self._payload()) is not None:
            try:
                yield decoder.decode(payload)
            except (msgspec.MsgspecError, RecursionError):
                self.torn_bytes += len(payload)
                return

    def _payload(self) -> bytes | None:
        """The next frame's payload; None where the rest of the file is no whole frame."""
        head = self._file.read(FRAME.size)
        if len(head) == FRAME.size:
            length, crc = FRAME.unpack(head)
            # Zeros, which a node's crash can leave at the end, are no empty frame.
            if 0 < length <= MAX_FRAME_BYTES:
                payload = self._file.read(length)
                if len(payload) == length and zlib.crc32(payload) == crc and (whole := _decompressed(payload)) is not None:
                    return whole
                head += payload
        self.torn_bytes += len(head) + _rest_bytes(self._file)
        return None


class _Packed(msgspec.Struct):
    """A frame whose rows are decoded one by one."""

    rows: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_ROWS)] = []
    slots: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_ROWS // 100)] = []


class _Versions(msgspec.Struct):
    format: int
    schema_version: int


def _unpacked(raw: msgspec.Raw, type_: type[T]) -> T | None:
    try:
        return msgspec.msgpack.decode(raw, type=type_) if memoryview(raw).nbytes <= MAX_ROW_BYTES else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def _decompressed(payload: bytes) -> bytes | None:
    try:
        if not 0 <= zstandard.frame_content_size(payload) <= MAX_FRAME_BYTES:
            return None
        return zstandard.ZstdDecompressor().decompress(payload)
    except zstandard.ZstdError:
        return None


def _rest_bytes(file: BinaryIO) -> int:
    count = 0
    while chunk := file.read(1 << 20):
        count += len(chunk)
    return count
