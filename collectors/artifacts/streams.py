"""Streams out of packed ones: bounded in memory and in how far they expand, whatever their source claims."""

import codecs
import io
import lzma
import tarfile
import zipfile
import zlib
from typing import BinaryIO, Protocol

MAX_RATIO = 1000
"""Expansion beyond which an archive is no log: the most repetitive real ones reach some hundreds."""
FREE_BYTES = 256 * 2**20
"""That much may always come out, whatever the ratio."""
REPETITIVE_RATIO = 200
"""Expansion beyond which a log repeats its lines word for word. Logs with times reach 20 to 60; those that reach some
hundreds have none, and each copy tells what the first told. So nothing is cut off there, but copies are counted only."""
REPETITIVE_BYTES = 2**20
"""That much is looked at in any case."""
MAX_DICTIONARY_BYTES = 2**27
"""xz -9 needs half of it."""
PIECE_BYTES = 2**16


class Decoder(Protocol):
    """Unpacks step by step."""

    def read1(self, size: int, /) -> bytes:
        """What one step gives, at most `size` bytes; b"" at the end."""
        ...


class Unpacked(io.RawIOBase):
    """A stream out of a packed one, that ends where its source is damaged or explodes.

    Attributes:
        problem: Why it ended early, or None.
    """

    def __init__(self, inner: Decoder, source: "Counted") -> None:
        super().__init__()
        self._inner = inner
        self._source = source
        self._out = 0
        self.problem: str | None = None

    @property
    def repetitive(self) -> bool:
        """Whether it has expanded so far that its lines must be copies of each other."""
        return self._out > REPETITIVE_BYTES and self._out > REPETITIVE_RATIO * max(self._source.taken, 1)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read on; 0 at the end, at damage, and where the expansion is beyond reason."""
        if self.problem is not None:
            return 0
        if self._out > FREE_BYTES and self._out > MAX_RATIO * max(self._source.taken, 1):
            self.problem = f"expands more than {MAX_RATIO} times: cut off after {self._out // 2**20} MiB"
            return 0
        try:
            # A step, not a full buffer: what a decoder has in hand when it meets the damage goes with the exception.
            data = self._inner.read1(min(len(buffer), PIECE_BYTES))
        except (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
            self.problem = f"damaged or cut off: {error}"
            return 0
        buffer[: len(data)] = data
        self._out += len(data)
        return len(data)


class Counted(io.RawIOBase):
    """A source that counts what was taken from it."""

    def __init__(self, inner: BinaryIO) -> None:
        super().__init__()
        self._inner = inner
        self.taken = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read on, counting."""
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        self.taken += len(data)
        return len(data)


class Xz:
    """xz within a bound of memory: its header says how large a dictionary must be kept, up to gigabytes."""

    def __init__(self, inner: BinaryIO) -> None:
        self._inner = inner
        self._decoder: lzma.LZMADecompressor | None = None

    def read1(self, size: int) -> bytes:
        """Read on, a step, at most `size` bytes; b"" at the end of the last stream.

        Raises:
            lzma.LZMAError: If it is damaged, or needs more memory.
            EOFError: If it is cut off.
        """
        while True:
            data = b""
            if self._decoder is None or self._decoder.eof:
                data = self._decoder.unused_data if self._decoder is not None else b""
                data = (data or self._inner.read(PIECE_BYTES)).lstrip(b"\0")
                if not data:
                    return b""
                self._decoder = lzma.LZMADecompressor(memlimit=MAX_DICTIONARY_BYTES)
            elif self._decoder.needs_input:
                data = self._inner.read(PIECE_BYTES)
                if not data:
                    raise EOFError("it ends before its end marker")
            out = self._decoder.decompress(data, size)
            if out:
                return out


class Recoded(io.RawIOBase):
    """UTF-16 as UTF-8; what is no valid UTF-16 becomes U+FFFD."""

    def __init__(self, inner: BinaryIO, encoding: str) -> None:
        super().__init__()
        self._inner = inner
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._ready = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read on, decoding and encoding."""
        while not self._ready:
            data = self._inner.read(len(buffer))
            text = self._decoder.decode(data, final=not data)
            self._ready = text.removeprefix("\ufeff").encode("utf-8", "replace")
            if not data:
                break
        taken = self._ready[: len(buffer)]
        self._ready = self._ready[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)
