"""The ring files of a process: one for each thread that writes, made at its first record.

The blocks of a file are reserved when it is made: a store into a hole on a full disk would be a SIGBUS in the engine.
"""

import contextlib
import mmap
import os
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from oomctl.collectors.agent.layout import (
    CHECKSUM,
    CONTROL_OFFSET,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    SLOT_BYTES,
    SUFFIX,
    VERSION,
)
from oomctl.collectors.agent.process import boot_id, start_ticks
from oomctl.collectors.agent.ring import Ring

DEFAULT_CAPACITY = 65_536
"""8 MiB: more than a minute of a busy scheduler that nobody drains."""


@dataclass(frozen=True)
class Identity:
    """Whose ring it is.

    Attributes:
        role: api_server, core or worker.
        worker: The engine instance, the same over restarts.
        incarnation: One life of the engine, the same in all its processes.
        engine: Name and version.
        rank: Global rank; -1 where it has none.
        rank_name: As the engine prints it.
        device_id: -1 where it has none.
    """

    role: str
    worker: str = ""
    incarnation: str = ""
    engine: str = ""
    rank: int = -1
    rank_name: str = ""
    device_id: int = -1


class _Lease:
    """A thread's hold on a ring; when the thread ends, the next new one gets it."""

    __slots__ = ("_spare", "ring")

    def __init__(self, ring: Ring, spare: list[Ring]) -> None:
        self.ring = ring
        self._spare = spare

    def __del__(self) -> None:
        self._spare.append(self.ring)


class Rings:
    """All rings of one identity in this process: as many as there were threads at a time. The folder must exist.

    Args:
        folder: Where the files go.
        identity: Whose they are.
        capacity: Slots per ring.
    """

    def __init__(self, folder: Path, identity: Identity, capacity: int = DEFAULT_CAPACITY) -> None:
        self.folder = folder
        self.identity = identity
        self.capacity = max(capacity, 2)
        self.quiet = False
        self._local = threading.local()
        self._made: list[Ring] = []
        self._spare: list[Ring] = []
        _ALL.add(self)

    def mine(self) -> Ring:
        """The calling thread's ring; its file is made at its first record."""
        try:
            ring: Ring = self._local.lease.ring
        except AttributeError:
            try:
                ring = self._spare.pop()
            except IndexError:
                ring = Ring(self.capacity, self._make)
                self._made.append(ring)
            self._local.lease = _Lease(ring, self._spare)
        return ring

    def close(self) -> None:
        """Note in each ring that the process ended in order."""
        for ring in self._made:
            ring.close()

    def after_fork(self) -> None:
        """In a child: leave the parent's files alone. Only the forking thread lives on; its ring is made anew."""
        for ring in self._made:
            ring.forget()

    def _make(self) -> tuple[mmap.mmap, Path] | None:
        """A file; where there can be none, say so once: a full disk or a missing folder is no matter of the engine's."""
        if self.quiet:
            return None
        try:
            return _create(self)
        except (OSError, ValueError) as error:
            self.quiet = True
            tell(f"no ring in {self.folder}: {error}; nothing is recorded by this process")
            return None


_ALL: "weakref.WeakSet[Rings]" = weakref.WeakSet()


def _after_fork() -> None:
    for rings in list(_ALL):
        rings.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def tell(text: str) -> None:
    """One line on stderr; a closed stderr is no matter of the engine's either."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"oomctl agent: {text}", file=sys.stderr, flush=True)


def _create(rings: Rings) -> tuple[mmap.mmap, Path]:
    """Make a ring file; it appears under its name only when its header stands.

    Raises:
        OSError: If the folder, the space or the permission is not there.
    """
    identity, pid, thread = rings.identity, os.getpid(), threading.get_native_id()
    ticks = start_ticks()
    stem = f"{identity.role}-{pid}-{ticks}-{thread}"
    number = 0
    while (path := rings.folder / f"{stem}-{number}{SUFFIX}").exists():
        number += 1
    making = path.with_suffix(".making")
    size = HEADER_BYTES + rings.capacity * SLOT_BYTES
    descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        # Its pages are mapped now: else the step path would fault on each, one after the other.
        view = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        static = HEADER.pack(
            MAGIC, VERSION, HEADER_BYTES, SLOT_BYTES, rings.capacity, pid, thread, identity.rank, identity.device_id, ticks,
            time.monotonic_ns(), time.time_ns(), *map(_bytes, (
                boot_id(), identity.incarnation, identity.worker, identity.rank_name, identity.role, identity.engine,
            )),
        )  # fmt: skip
        view[: len(static)] = static
        CHECKSUM.pack_into(view, len(static), crc32(static))
        view[CONTROL_OFFSET] = 1
        making.rename(path)
    except BaseException:
        making.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    return view, path


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
