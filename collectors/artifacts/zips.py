"""A zip of logs, read member by member within the bounds that hold for every archive; nothing is extracted to disk."""

import io
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from oomctl.schemas.errors import OomctlError

MAX_DIRECTORY_BYTES = 2**24
"""The directory at the end is read whole: 46 bytes and a name for each entry."""
_END = struct.Struct("<4s4H2LH")
"""The end of the central directory: its sixth field is the directory's size (APPNOTE 4.3.16)."""


def entries(file: io.BufferedReader, name: str) -> Iterator[tuple[zipfile.ZipInfo, BinaryIO]]:
    """The files of a zip, in its order, each with its unpacked bytes.

    Raises:
        OomctlError: If it is damaged, its directory is too large, or an entry is encrypted.
    """
    with tempfile.TemporaryFile(prefix="oomctl-") as scratch:
        if not file.seekable():  # its directory stands at its end
            shutil.copyfileobj(file, scratch)
        place = file if file.seekable() else scratch
        try:
            if _directory_bytes(place) > MAX_DIRECTORY_BYTES:
                raise OomctlError(f"too many files in one zip ({name})", "unzip it, and give the logs")
            with zipfile.ZipFile(place) as archive:
                for entry in archive.infolist():
                    if entry.is_dir() or not entry.file_size:
                        continue
                    if entry.flag_bits & 1:
                        raise OomctlError(f"encrypted ({name}:{entry.filename})", "unzip it, and give the logs")
                    with archive.open(entry) as member:
                        yield entry, cast(BinaryIO, member)
        except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
            raise OomctlError(f"damaged or cut off: {error} ({name})", "copy the archive again, or unzip it") from error


def _directory_bytes(file: BinaryIO) -> int:
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - _END.size - 2**16, 0))
    tail = file.read()
    file.seek(0)
    start = tail.rfind(b"PK\x05\x06")
    return int(_END.unpack_from(tail, start)[5]) if 0 <= start <= len(tail) - _END.size else 0
