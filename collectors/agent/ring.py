"""Writing records into a ring: nothing here locks, logs or talks to anybody, for it runs on the step path.

What is written to the map is in the kernel's page cache, so it survives SIGKILL and the kernel's OOM killer.
"""

import mmap
import struct
import time
from collections.abc import Callable
from pathlib import Path
from zlib import adler32

from oomctl.collectors.agent.layout import (
    BODY_BYTES,
    CONTINUATION,
    CONTROL_OFFSET,
    COUNTER,
    DROPPED_OFFSET,
    ERRORS_OFFSET,
    FLAG_CUT,
    HEADER_BYTES,
    MAX_PARTS,
    SLOT_AFTER_CHECKSUM,
    SLOT_BYTES,
    SLOT_WHOLE,
    STATE_OFFSET,
    RecordKind,
    slot_word,
)

Making = Callable[[], tuple[mmap.mmap, Path] | None]
"""Makes a ring's file, and maps it; None where there can be none."""

_monotonic_ns = time.monotonic_ns
_pack_slot = SLOT_AFTER_CHECKSUM.pack
_pack_whole_into = SLOT_WHOLE.pack_into


class Ring:
    """The ring of one thread at a time. After a fork it has no map, and the child's first record makes a new file.

    Args:
        capacity: Slots.
        make: Called at the first record.

    Attributes:
        capacity: Slots.
        view: The bytes of the file, from the first record on.
        path: The file, where there is one.
        place: Of the last slot.
        spilled: Slots so far that continued a record.
    """

    __slots__ = ("_make", "capacity", "path", "place", "spilled", "view")

    def __init__(self, capacity: int, make: Making) -> None:
        self.capacity = capacity
        self._make = make
        self.forget()

    def forget(self) -> None:
        """Leave the file to the process that made it."""
        self.view: memoryview | None = None
        self.spilled = 0
        self.place = 0
        self.path: Path | None = None

    @property
    def active(self) -> bool:
        """Whether the control byte says: record. A ring that has no file yet counts as active."""
        view = self.view
        return view is None or view[CONTROL_OFFSET] == 1

    def append(self, slot: bytes) -> None:
        """Append a record of one slot; on a failure count it, never raise.

        Args:
            slot: From the kind's `pack`, for `place + 1`.
        """
        view = self.view
        if view is None and (view := self._open()) is None:
            return
        try:
            place = self.place + 1
            at = HEADER_BYTES + place % self.capacity * SLOT_BYTES
            # A copy of the whole, not value by value: a slot that is filled in many stores can be torn in more places.
            _pack_whole_into(view, at, adler32(slot), slot)
            self.place = place
        except Exception:
            # The map is closed under us while the process ends.
            self._count(DROPPED_OFFSET)

    def extend(self, slots: memoryview) -> bool:
        """Append several such records in one copy.

        Args:
            slots: For `place + 1` and those that follow, with their checksums.

        Returns:
            As `active`, which costs least here.
        """
        view, capacity = self.view, self.capacity
        if view is None and (view := self._open()) is None:
            return True
        try:
            count = len(slots) // SLOT_BYTES
            at = (self.place + 1) % capacity
            before_end = (capacity - at) * SLOT_BYTES
            at = HEADER_BYTES + at * SLOT_BYTES
            if len(slots) <= before_end:
                view[at : at + len(slots)] = slots
            else:
                view[at : at + before_end] = slots[:before_end]
                rest = slots[before_end:]
                view[HEADER_BYTES : HEADER_BYTES + len(rest)] = rest
            self.place += count
            return view[CONTROL_OFFSET] == 1
        except Exception:
            self._count(DROPPED_OFFSET, len(slots) // SLOT_BYTES)
            return True

    def write(self, kind: RecordKind, tail: bytes, *values: float) -> None:
        """Append a record with texts of any length; on a failure count it, never raise.

        Args:
            kind: What it is.
            tail: Its texts, from `pack_texts`.
            values: The fixed values in the order of `kind.values`, NULL as `kind.nulls` has it.
        """
        try:
            if len(tail) <= kind.room:
                self.append(kind.pack(kind.word, self.place + 1, _monotonic_ns(), self.spilled, *values, tail))
            else:
                self._write_long(kind, tail, values)
        except struct.error:
            # A value out of its format's range.
            if self.view is not None or self._open() is not None:
                self._count(DROPPED_OFFSET)

    def _write_long(self, kind: RecordKind, tail: bytes, values: tuple[float, ...]) -> None:
        """The continuations go first, so that a reader that sees the head sees all."""
        view = self.view
        if view is None and (view := self._open()) is None:
            return
        limit = min(MAX_PARTS, self.capacity - 1) * BODY_BYTES
        flags = FLAG_CUT if len(tail) - kind.room > limit else 0
        rest = tail[kind.room : kind.room + limit]
        parts = -(-len(rest) // BODY_BYTES)
        place, spilled, now_ns = self.place + 1, self.spilled, _monotonic_ns()
        head = kind.pack(slot_word(kind.code, parts, flags), place, now_ns, spilled, *values, tail)
        try:
            for part in range(parts):
                piece = rest[part * BODY_BYTES : (part + 1) * BODY_BYTES]
                word = slot_word(CONTINUATION, parts - part - 1)
                self._store(view, place + 1 + part, _pack_slot(word, place + 1 + part, now_ns, spilled, piece))
            self._store(view, place, head)
            self.place, self.spilled = place + parts, spilled + parts
        except Exception:
            self._count(DROPPED_OFFSET)

    def _store(self, view: memoryview, place: int, slot: bytes) -> None:
        at = HEADER_BYTES + place % self.capacity * SLOT_BYTES
        _pack_whole_into(view, at, adler32(slot), slot)

    def count_error(self) -> None:
        """Count an exception that was kept from the engine."""
        self._count(ERRORS_OFFSET)

    def close(self) -> None:
        """Note that the process ended in order."""
        if self.view is not None:
            self.view[STATE_OFFSET] = 1

    def _count(self, offset: int, by: int = 1) -> None:
        view = self.view
        if view is not None:
            COUNTER.pack_into(view, offset, COUNTER.unpack_from(view, offset)[0] + by)

    def _open(self) -> memoryview | None:
        made = self._make()
        if made is not None:
            self.view, self.path = memoryview(made[0]), made[1]
        return self.view
