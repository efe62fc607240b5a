"""Writing rings: an mmap'd file for each writing thread, so that nothing on the step path locks, logs or talks to anybody.

What is written to the map is in the kernel's page cache, so it survives SIGKILL and the kernel's OOM killer. The blocks of
the file are reserved when it is made: a store into a hole on a full disk would be a SIGBUS in the engine.
"""

import contextlib
import mmap
import os
import struct
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from oomctl.collectors.agent.layout import (
    BODY_BYTES,
    CONTINUATION,
    CONTROL_OFFSET,
    COUNTER,
    CRC,
    DROPPED_OFFSET,
    ERRORS_OFFSET,
    FLAG_CUT,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAX_PARTS,
    SLOT_AFTER_CRC,
    SLOT_BYTES,
    STATE_OFFSET,
    SUFFIX,
    VERSION,
    RecordKind,
    slot_word,
)
from oomctl.collectors.agent.process import boot_id, start_ticks

DEFAULT_CAPACITY = 65_536
"""8 MiB: more than a minute of a busy scheduler that nobody drains."""

_monotonic_ns = time.monotonic_ns
_pack_slot = SLOT_AFTER_CRC.pack


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


class Ring:
    """The ring of one thread at a time. After a fork it has no map, and the child's first record makes a new file.

    Args:
        rings: The folder and identity it belongs to.
    """

    __slots__ = ("_capacity", "_map", "_rings", "_spilled", "path", "place")

    def __init__(self, rings: "Rings") -> None:
        self._rings = rings
        self._capacity = rings.capacity
        self.forget()

    def forget(self) -> None:
        """Leave the file to the process that made it."""
        self._map: mmap.mmap | None = None
        self._spilled = 0
        self.place = 0
        self.path: Path | None = None

    @property
    def active(self) -> bool:
        """Whether the control byte says: record. A ring that has no file yet counts as active."""
        view = self._map
        return view is None or view[CONTROL_OFFSET] == 1

    def put(self, kind: RecordKind, body: bytes) -> None:
        """Append a record of one slot; on a failure count it, never raise.

        Args:
            kind: What it is.
            body: From `kind.pack`.
        """
        view = self._map
        if view is None and (view := self._open()) is None:
            return
        try:
            # As in _write, without the call: this is the step path.
            place = self.place + 1
            slot = _pack_slot(kind.word, place, _monotonic_ns(), self._spilled, body)
            at = HEADER_BYTES + place % self._capacity * SLOT_BYTES
            view[at : at + SLOT_BYTES] = crc32(slot).to_bytes(4, "little") + slot
            self.place = place
        except Exception:
            # The map is closed under us while the process ends.
            self._count(DROPPED_OFFSET)

    def write(self, kind: RecordKind, tail: bytes, *values: float) -> None:
        """Append a record with texts of any length; on a failure count it, never raise.

        Args:
            kind: What it is.
            tail: Its texts, from `pack_texts`.
            values: The fixed values in the order of `kind.values`, NULL as `kind.nulls` has it.
        """
        try:
            body = kind.pack(*values, tail)
        except struct.error:
            # A value out of its format's range.
            if self._map is not None or self._open() is not None:
                self._count(DROPPED_OFFSET)
            return
        if len(tail) <= kind.room:
            self.put(kind, body)
        else:
            self._put_long(kind, body, tail[kind.room :])

    def _put_long(self, kind: RecordKind, body: bytes, rest: bytes) -> None:
        """The continuations go first, so that a reader that sees the head sees all."""
        view = self._map
        if view is None and (view := self._open()) is None:
            return
        limit = min(MAX_PARTS, self._capacity - 1) * BODY_BYTES
        flags = FLAG_CUT if len(rest) > limit else 0
        rest = rest[:limit]
        parts = -(-len(rest) // BODY_BYTES)
        place = self.place + 1
        try:
            for part in range(parts):
                piece = rest[part * BODY_BYTES : (part + 1) * BODY_BYTES]
                self._write(view, slot_word(CONTINUATION, parts - part - 1), place + 1 + part, self._spilled, piece)
            self._write(view, slot_word(kind.code, parts, flags), place, self._spilled, body)
            self.place = place + parts
            self._spilled += parts
        except Exception:
            self._count(DROPPED_OFFSET)

    def _write(self, view: mmap.mmap, word: int, place: int, spilled: int, body: bytes) -> None:
        slot = _pack_slot(word, place, _monotonic_ns(), spilled, body)
        at = HEADER_BYTES + place % self._capacity * SLOT_BYTES
        # One copy of the whole: a slot that is filled in several stores can be torn in more places.
        view[at : at + SLOT_BYTES] = crc32(slot).to_bytes(4, "little") + slot

    def count_error(self) -> None:
        """Count an exception that was kept from the engine."""
        self._count(ERRORS_OFFSET)

    def close(self) -> None:
        """Note that the process ended in order."""
        if self._map is not None:
            self._map[STATE_OFFSET] = 1

    def _count(self, offset: int) -> None:
        view = self._map
        if view is not None and not view.closed:
            COUNTER.pack_into(view, offset, COUNTER.unpack_from(view, offset)[0] + 1)

    def _open(self) -> mmap.mmap | None:
        if self._rings.quiet:
            return None
        try:
            self._map, self.path = _create(self._rings)
        except (OSError, ValueError) as error:
            self._rings.fall_quiet(error)
        return self._map


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
                ring = Ring(self)
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

    def fall_quiet(self, error: Exception) -> None:
        """Record nothing from now on, and say so once: a full disk or a missing folder is no matter of the engine's."""
        if not self.quiet:
            self.quiet = True
            tell(f"no ring in {self.folder}: {error}; nothing is recorded by this process")


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
        view = mmap.mmap(descriptor, size)
        static = HEADER.pack(
            MAGIC, VERSION, HEADER_BYTES, SLOT_BYTES, rings.capacity, pid, thread, identity.rank, identity.device_id, ticks,
            _monotonic_ns(), time.time_ns(), *map(_bytes, (
                boot_id(), identity.incarnation, identity.worker, identity.rank_name, identity.role, identity.engine,
            )),
        )  # fmt: skip
        view[: len(static)] = static
        CRC.pack_into(view, len(static), crc32(static))
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
