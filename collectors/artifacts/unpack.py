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
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from oomctl.collectors.artifacts.streams import Counted, Decoder, Recoded, Unpacked, Xz
from oomctl.schemas.errors import OomctlError

ZIP_MAGIC = b"PK\x03\x04"
MAX_LAYERS = 4
MAX_MEMBERS = 10_000
MAX_NAME_BYTES = 2**20
MIN_PAIRS = 8
"""Of bytes, to tell UTF-16 that has no mark from a few odd bytes."""
PEEK = 512
_ABOUT_THE_NEXT = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE
)  # fmt: skip
"""Entries that only say more of the one after them."""

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Member(tarfile.TarInfo):
    """A tar's entry, whose name and attributes take a bounded place: they are read into memory whole."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _ABOUT_THE_NEXT and self.size > MAX_NAME_BYTES:
            raise tarfile.ReadError("a name or header of an entry is too long")
        return cast(tarfile.TarInfo, super()._proc_member(archive))  # type: ignore[misc]


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
