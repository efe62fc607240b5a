"""Logs out of what they were packed in: gzip, zstd, xz, bzip2, tar or zip of any of these, UTF-16.

Everything is streamed: memory does not grow with the input. An archive that was cut off gives what it holds and says so;
one that expands beyond reason is cut off there.
"""

import bz2
import codecs
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol, cast

from oomctl.schemas.errors import OomctlError

ZIP_MAGIC = b"PK\x03\x04"
MAX_LAYERS = 4
MAX_RATIO = 1000
"""Expansion beyond which an archive is no log: the most repetitive real ones reach some hundreds."""
FREE_BYTES = 256 * 2**20
"""That much may always come out, whatever the ratio."""
REPETITIVE_RATIO = 200
"""Expansion beyond which a log repeats its lines word for word. Logs with times reach 20 to 60; those that reach some
hundreds have none, and each copy tells what the first told. So nothing is cut off there, but copies are counted only."""
REPETITIVE_BYTES = 2**20
"""That much is looked at in any case."""
MAX_MEMBERS = 10_000
MAX_NAME_BYTES = 2**20
MAX_DICTIONARY_BYTES = 2**27
"""xz -9 needs half of it."""
PIECE_BYTES = 2**16
MIN_PAIRS = 8
"""Of bytes, to tell UTF-16 that has no mark from a few odd bytes."""
PEEK = 512
_ABOUT_THE_NEXT = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE
)  # fmt: skip
"""Entries that only say more of the one after them."""

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


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


class Member(tarfile.TarInfo):
    """A tar's entry, whose name and attributes take a bounded place: they are read into memory whole."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _ABOUT_THE_NEXT and self.size > MAX_NAME_BYTES:
            raise tarfile.ReadError("a name or header of an entry is too long")
        return cast(tarfile.TarInfo, super()._proc_member(archive))  # type: ignore[misc]


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


def members(file: io.BufferedReader, name: str, layers: int = 0) -> Iterator[tuple[str, io.BufferedReader, list[Unpacked]]]:
    """What a file holds: itself where it is not packed.

    Args:
        file: Its bytes.
        name: What it is called.
        layers: How deep it is packed already.

    Returns:
        (name, stream, unpackers) of each; the unpackers say, once the stream is read, whether it ended early. A member must
        be read before the next one is asked for.

    Raises:
        OomctlError: If it is packed too deep.
    """
    if layers > MAX_LAYERS:
        raise OomctlError(f"packed more than {MAX_LAYERS} times ({name})", "unpack it first")
    head = file.peek(PEEK)
    if len(head) > 262 and head[257:262] == b"ustar":
        yield from _tar(file, name, layers)
        return
    if head.startswith(ZIP_MAGIC) and (name.lower().endswith(".zip") or name == "stdin"):
        yield from _zip(file, name, layers)
        return
    encoding = utf16(head)
    if encoding is not None:
        yield name, io.BufferedReader(Recoded(file, encoding)), []
        return
    opened = _opened(file, head)
    if opened is None:
        yield name, file, []
        return
    for inner_name, stream, unpackers in members(io.BufferedReader(opened), name, layers + 1):
        yield inner_name, stream, [opened, *unpackers]


def utf16(head: bytes) -> str | None:
    """The byte order of UTF-16, by its mark, or, in a text that is mostly Latin, by the zeros of every other byte."""
    marked = next((encoding for bom, encoding in _UTF16.items() if head.startswith(bom)), None)
    pairs = len(head) // 2
    if marked is not None or pairs < MIN_PAIRS:
        return marked
    even, odd = (head[start : 2 * pairs : 2].count(0) for start in (0, 1))
    if min(even, odd) > pairs // 20 or max(even, odd) < pairs * 7 // 10:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _opened(file: io.BufferedReader, head: bytes) -> Unpacked | None:
    source = Counted(file)
    counted = cast(BinaryIO, io.BufferedReader(source))
    if head.startswith(b"\x1f\x8b"):
        return Unpacked(gzip.GzipFile(fileobj=counted), source)
    if head.startswith(b"BZh"):
        return Unpacked(bz2.BZ2File(counted), source)
    if head.startswith(b"\xfd7zXZ"):
        return Unpacked(Xz(counted), source)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        import pyarrow

        # pyarrow says where a frame is cut off; zstandard's reader takes it for the end.
        return Unpacked(pyarrow.CompressedInputStream(pyarrow.PythonFile(counted, "r"), "zstd"), source)
    return None


def _zip(file: io.BufferedReader, name: str, layers: int) -> Iterator[tuple[str, io.BufferedReader, list[Unpacked]]]:
    """The files of a zip. One that is not called so is a document, a package or a checkpoint."""
    from oomctl.collectors.artifacts import zips

    for count, (entry, member) in enumerate(zips.entries(file, name)):
        if count >= MAX_MEMBERS:
            raise OomctlError(f"more than {MAX_MEMBERS} members ({name})", "unpack it, and give the logs")
        source = Counted(member)
        source.taken = entry.compress_size
        guarded = Unpacked(cast(Decoder, member), source)
        for inner_name, stream, unpackers in members(io.BufferedReader(guarded), f"{name}:{entry.filename}", layers + 1):
            yield inner_name, stream, [guarded, *unpackers]


def _tar(file: io.BufferedReader, name: str, layers: int) -> Iterator[tuple[str, io.BufferedReader, list[Unpacked]]]:
    """The regular files of a tar, in its order, never extracted to disk, whatever their names say."""
    try:
        with tarfile.open(fileobj=file, mode="r|", tarinfo=Member) as archive:
            for count, entry in enumerate(archive):
                if count >= MAX_MEMBERS:
                    raise OomctlError(f"more than {MAX_MEMBERS} members ({name})", "unpack it, and give the logs")
                if not entry.isreg() or entry.size == 0:
                    continue
                inner = archive.extractfile(entry)
                if inner is not None:
                    source = Counted(cast(BinaryIO, inner))
                    source.taken = entry.size  # a member expands to just its size; what it holds is counted on its own
                    guarded = Unpacked(cast(io.BufferedReader, inner), source)
                    yield from members(io.BufferedReader(guarded), f"{name}:{entry.name}", layers + 1)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise OomctlError(
            f"damaged or cut off: {error} ({name})", "what came before was read; copy the archive again"
        ) from error
