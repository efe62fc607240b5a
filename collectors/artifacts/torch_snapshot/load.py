"""From a file to plain containers. A pickle is a program: every name it asks for is refused, and its memory is bounded."""

import gc
import io
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from oomctl.collectors.artifacts.unpack import members
from oomctl.schemas.errors import OomctlError

MAX_JSON_BYTES = 2 << 30
MEMORY_PER_BYTE = 64
"""An empty container is one byte of a pickle and 64 of memory; real snapshots need 2 to 3."""
MEMORY_FLOOR_BYTES = 512 << 20
HINT = "give a file written by torch.cuda.memory._dump_snapshot()"


class _Refused(Exception):
    """The pickle asks for more than plain containers."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds containers, texts and numbers only."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise _Refused(f"asks for {module[:60]}.{name[:60]}, which a snapshot never needs: not run")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise _Refused("asks for an object outside the file: not run")


@contextmanager
def load(path: str, name: str) -> Iterator[tuple[Any, int]]:
    """The document in a file and its unpacked size; garbage collection rests until it is let go.

    Raises:
        OomctlError: If it cannot be read whole.
    """
    collecting = gc.isenabled()
    gc.disable()  # a million containers without a cycle: the collector would take half of the time
    try:
        with Path(path).open("rb") as packed, _plain(packed, name) as (stream, size_bytes):
            yield _document(stream, name, size_bytes), size_bytes
    finally:
        if collecting:
            gc.enable()


@contextmanager
def _plain(file: io.BufferedReader, name: str) -> Iterator[tuple[BinaryIO, int]]:
    """The file itself, or a copy on disk of what is packed in it."""
    found = next(iter(members(file, name)), None)
    if found is None:
        raise OomctlError(f"no file in the archive ({name})", HINT)
    _, stream, unpackers = found
    if stream is file:
        yield file, Path(file.name).stat().st_size
        return
    with tempfile.TemporaryFile(prefix="oomctl-") as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        damage = next((unpacker.problem for unpacker in unpackers if unpacker.problem), None)
        if damage:
            raise OomctlError(f"{damage} ({name})", "copy the file again")
        size_bytes = copy.tell()
        copy.seek(0)
        yield cast(BinaryIO, copy), size_bytes


def _document(stream: BinaryIO, name: str, size_bytes: int) -> Any:
    head = stream.read(64)
    stream.seek(0)
    if not head:
        raise OomctlError(f"empty file ({name})", HINT)
    try:
        with _bounded_memory(size_bytes):
            if head.lstrip()[:1] in (b"{", b"["):
                return _json(stream, size_bytes)
            # At a bytearray larger than memory it prints an error that it does not raise.
            with redirect_stderr(io.StringIO()):
                return _PlainUnpickler(stream).load()
    except _Refused as error:
        raise OomctlError(f"refused: the pickle {error} ({name})", "do not open it with other tools") from None
    except MemoryError:
        raise OomctlError(f"needs more memory than a snapshot of its size can ({name})", HINT) from None
    except RecursionError:
        raise OomctlError(f"nested too deep for a snapshot ({name})", HINT) from None
    except OSError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise OomctlError(f"damaged, cut off, or no snapshot: {reason} ({name})", HINT) from None


def _json(stream: BinaryIO, size_bytes: int) -> Any:
    import msgspec

    if size_bytes > MAX_JSON_BYTES:
        raise MemoryError
    return msgspec.json.decode(stream.read())


@contextmanager
def _bounded_memory(size_bytes: int) -> Iterator[None]:
    """A few bytes of a pickle may ask for gigabytes (a memo index, a length): here they are refused."""
    try:
        import resource

        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):  # no Linux: unbounded
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = held + MEMORY_FLOOR_BYTES + MEMORY_PER_BYTE * size_bytes
    limits = [limit for limit in (soft, hard, wanted) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
