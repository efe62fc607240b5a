"""Writing records into a ring: nothing here locks, logs or talks to anybody, for it runs on the step path.

What is written to the map is in the kernel's page cache, so it survives SIGKILL and the kernel's OOM killer.
"""

import mmap
import struct
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

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
    SLOT_AFTER_CRC,
    SLOT_BYTES,
    SLOT_WHOLE,
    STATE_OFFSET,
    TWO_SLOTS,
    RecordKind,
    slot_word,
)

Making = Callable[[], tuple[mmap.mmap, Path] | None]
"""Makes a ring's file, and maps it; None where there can be none."""

_monotonic_ns = time.monotonic_ns
_pack_slot = SLOT_AFTER_CRC.pack
_pack_whole = SLOT_WHOLE.pack
_pack_two = TWO_SLOTS.pack


class Ring:
    """The ring of one thread at a time. After a fork it has no map, and the child's first record makes a new file.

    Args:
        capacity: Slots.
        make: Called at the first record.
    """

    __slots__ = ("_capacity", "_make", "_map", "_spilled", "path", "place")

    def __init__(self, capacity: int, make: Making) -> None:
        self._capacity = capacity
        self._make = make
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
            view[at : at + SLOT_BYTES] = _pack_whole(crc32(slot), slot)
            self.place = place
        except Exception:
            # The map is closed under us while the process ends.
            self._count(DROPPED_OFFSET)

    def put_two(self, first: RecordKind, body: bytes, second: RecordKind, its_body: bytes) -> None:
        """Append two records of one slot each, written at once: for what each step writes anyway.

        Args:
            first: What the first is.
            body: From `first.pack`.
            second: What the second is.
            its_body: From `second.pack`.
        """
        view = self._map
        place = self.place + 1
        at = place % self._capacity
        if view is None or at + 1 == self._capacity:
            self.put(first, body)
            self.put(second, its_body)
            return
        try:
            now_ns, spilled = _monotonic_ns(), self._spilled
            one = _pack_slot(first.word, place, now_ns, spilled, body)
            two = _pack_slot(second.word, place + 1, now_ns, spilled, its_body)
            at = HEADER_BYTES + at * SLOT_BYTES
            view[at : at + 2 * SLOT_BYTES] = _pack_two(crc32(one), one, crc32(two), two)
            self.place = place + 1
        except Exception:
            self._count(DROPPED_OFFSET)
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
        view[at : at + SLOT_BYTES] = _pack_whole(crc32(slot), slot)

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
        made = self._make()
        if made is not None:
            self._map, self.path = made
        return self._map
