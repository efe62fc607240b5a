"""Reading rings, also while they are written and after their process was killed.

A record counts only if its CRC holds and its place belongs to its slot. So a slot that was being written at the kill is
seen and counted, and so is each record that the ring's end overtook before it was read.
"""

import mmap
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from oomctl.collectors.agent.decode import Record, decode
from oomctl.collectors.agent.header import Header, read_header
from oomctl.collectors.agent.layout import (
    CONTINUATION,
    CRC,
    FLAG_CUT,
    HEADER_BYTES,
    KINDS,
    MAX_PARTS,
    SLOT_BYTES,
    SLOT_HEAD,
    SUFFIX,
)
from oomctl.schemas.errors import OomctlError

CLOCK_STEP_NS = 500_000_000
"""A smaller difference between two readings of the wall clock is drift, or the delay between two calls."""


@dataclass
class Batch:
    """What one read found. Records + slots + overwritten + torn + unknown = records written since the read before.

    Attributes:
        records: In order of seq.
        slots: Of the kinds that were asked for as they are: (wall clock less monotonic clock, their slots one behind the
            other), with another element wherever the wall clock was read anew.
        overwritten: Records that the ring's end overtook before they were read.
        torn: Records that were being written when the process died.
        unknown: Records of a kind that this version does not know.
        clock_steps_ns: By how much the wall clock jumped, for each jump.
    """

    records: list[Record] = field(default_factory=list)
    slots: list[tuple[int, bytes]] = field(default_factory=list)
    overwritten: int = 0
    torn: int = 0
    unknown: int = 0
    clock_steps_ns: list[int] = field(default_factory=list)


class Position(NamedTuple):
    """How far a ring was read: enough for another reader to go on there.

    Attributes:
        place: Of the next slot.
        seq: Of the last record.
        offset_ns: Wall clock less monotonic clock there.
        made_ns: When the ring was made, which tells it from another one of the same name.
    """

    place: int
    seq: int
    offset_ns: int
    made_ns: int


class _Slot(NamedTuple):
    crc: int
    parts: int
    code: int
    flags: int
    place: int
    monotonic_ns: int
    spilled: int


class RingReader:
    """Follows one ring file.

    Args:
        path: The file.
        position: Where an earlier reader stopped; that of another ring is not used.

    Raises:
        OomctlError: If it is no ring, or one of another layout.
    """

    def __init__(self, path: Path, position: Position | None = None) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < HEADER_BYTES:
                    raise OomctlError(f"no ring file: shorter than its header ({path})")
                self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except OSError as error:
            raise OomctlError(f"cannot read the ring: {error.strerror} ({path})") from error
        try:
            header = self.header
        except OomctlError:
            self.close()
            raise
        self._capacity = header.capacity
        self._offset_ns = header.realtime_ns - header.monotonic_ns
        self._place = 0
        self._seq = 0
        self._made_ns = header.monotonic_ns
        if position is not None and position.made_ns == self._made_ns:
            self._place, self._seq, self._offset_ns, _ = position

    @property
    def position(self) -> Position:
        """How far it was read."""
        return Position(self._place, self._seq, self._offset_ns, self._made_ns)

    @property
    def header(self) -> Header:
        """The header with its counters as they are now."""
        return read_header(self._map, self.path)

    def read(self, *, final: bool = False, limit: int | None = None, as_slots: frozenset[int] = frozenset()) -> Batch:
        """What came since the last read; at the first, all that the ring still holds.

        Args:
            final: The process is known to be dead: a slot that is not whole is torn, not just being written.
            limit: At most so many records; the next read goes on there.
            as_slots: Codes of kinds that are given as they are where they fill one slot: not decoded, they cost a tenth.
        """
        batch = Batch()
        if self._place == 0:
            self._place = self._oldest()
        torn, taken = 0, 0
        slots: list[bytes] = []
        while limit is None or taken < limit:
            if as_slots and (raw := self._as_slot(as_slots)) is not None:
                place, seq = raw[1], raw[1] - raw[2]
                self._lost(seq, torn, batch)
                slots.append(raw[0])
                self._seq, self._place, torn, taken = seq, place + 1, 0, taken + 1
                continue
            slot = self._slot(self._place)
            if slot is None:
                beyond = self._beyond(final)
                if beyond is None:
                    break
                # Overtaken, or torn: the writer never comes back to a place before a whole head.
                torn += self._is_torn(self._place)
                self._place = beyond
            elif slot.code == CONTINUATION:
                # Its head was torn or overtaken.
                self._place += 1
            elif (record := self._record(slot)) is not None:
                seq = slot.place - slot.spilled
                self._lost(seq, torn, batch)
                self._seq, torn, taken = seq, 0, taken + 1
                self._place += 1 + slot.parts
                self._keep(record, batch, slots)
        if final and (limit is None or taken < limit) and self._is_torn(self._place):
            batch.torn += 1
            self._place += 1
        self._put_down(slots, batch)
        return batch

    def close(self) -> None:
        """Give the map back."""
        self._map.close()

    def _as_slot(self, codes: frozenset[int]) -> tuple[bytes, int, int] | None:
        """(slot, place, spilled) of the next record, where it is whole, of one of these kinds, and fills one slot."""
        at = HEADER_BYTES + self._place % self._capacity * SLOT_BYTES
        raw = self._map[at : at + SLOT_BYTES]
        crc, parts, code, _, place, _, spilled = SLOT_HEAD.unpack_from(raw)
        if place != self._place or parts or code not in codes or crc != crc32(raw[CRC.size :]):
            return None
        return raw, place, spilled

    def _lost(self, seq: int, torn: int, batch: Batch) -> None:
        """Count what is missing before a record."""
        lost = seq - self._seq - 1
        batch.torn += min(torn, lost)
        batch.overwritten += lost - min(torn, lost)

    def _put_down(self, slots: list[bytes], batch: Batch) -> None:
        if slots:
            batch.slots.append((self._offset_ns, b"".join(slots)))
            slots.clear()

    def _keep(self, record: Record | int, batch: Batch, slots: list[bytes]) -> None:
        if isinstance(record, int):
            batch.unknown += 1
            return
        realtime_ns = record.values.get("realtime_ns")
        if realtime_ns is not None:
            self._put_down(slots, batch)
            step = realtime_ns - record.monotonic_ns - self._offset_ns
            self._offset_ns += step
            if abs(step) >= CLOCK_STEP_NS:
                batch.clock_steps_ns.append(step)
        batch.records.append(record)

    def _record(self, slot: _Slot) -> Record | int | None:
        """The record that starts here; its code if the kind is unknown; None if it was overtaken meanwhile."""
        kind = KINDS.get(slot.code)
        if kind is None:
            return slot.code
        head = self._map[self._at(slot.place) : self._at(slot.place) + SLOT_BYTES]
        cut = bool(slot.flags & FLAG_CUT)
        rest = b""
        for place in range(slot.place + 1, slot.place + 1 + min(slot.parts, MAX_PARTS)):
            part = self._slot(place)
            if part is None or part.code != CONTINUATION:
                cut = True
                break
            rest += self._map[self._at(place) + SLOT_HEAD.size : self._at(place) + SLOT_BYTES]
        if self._slot(slot.place) != slot:
            return None
        return decode(kind, head, rest, self._offset_ns, cut)

    def _oldest(self) -> int:
        places = (slot.place for at in range(self._capacity) if (slot := self._whole(at)) is not None)
        oldest = max(max(places, default=0) - self._capacity, 0) + 1
        # In a ring that went round, this is the slot that the next record was being written into.
        return oldest + (oldest > 1 and self._slot(oldest) is None)

    def _beyond(self, final: bool) -> int | None:
        """Where reading goes on although the next place is not there; None where nothing was written after it.

        A writer that lives has written nothing behind a slot that it has not begun; only a crash of the whole node can have
        kept later pages and lost earlier ones.
        """
        here = self._whole(self._place)
        if here is not None and here.place > self._place:
            return here.place - self._capacity + 1
        if here is not None and not final:
            return None
        for place in range(self._place + 1, self._place + min(MAX_PARTS + 2, self._capacity)):
            slot = self._whole(place)
            if slot is not None and slot.place >= place and slot.code != CONTINUATION:
                return place
        return None

    def _is_torn(self, place: int) -> bool:
        """Whether this place was begun: its slot is not whole, or slots that continue it are there."""
        here = self._whole(place)
        if here is None:
            return True
        following = self._slot(place + 1)
        return here.place < place and following is not None and following.code == CONTINUATION

    def _at(self, place: int) -> int:
        return HEADER_BYTES + place % self._capacity * SLOT_BYTES

    def _whole(self, place: int) -> _Slot | None:
        """What stands in this place's slot, of whatever lap; None if it is not whole. Place 0: never written."""
        at = self._at(place)
        raw = self._map[at : at + SLOT_BYTES]
        slot = _Slot(*SLOT_HEAD.unpack_from(raw))
        if slot.crc != crc32(raw[CRC.size :]):
            return slot if not any(raw) else None
        return slot if slot.place % self._capacity == place % self._capacity else None

    def _slot(self, place: int) -> _Slot | None:
        """This very place, if it is there and whole."""
        slot = self._whole(place)
        return slot if slot is not None and slot.place == place else None


def read_ring(path: Path, *, final: bool = True) -> tuple[Header, Batch]:
    """All that a ring file holds now.

    Args:
        path: The file.
        final: Its process is dead: a slot that is not whole is torn.

    Raises:
        OomctlError: If it is no ring, or one of another layout.
    """
    reader = RingReader(path)
    try:
        return reader.header, reader.read(final=final)
    finally:
        reader.close()


def ring_paths(folder: Path) -> list[Path]:
    """The ring files of a folder, in order of their names."""
    return sorted(folder.glob(f"*{SUFFIX}"))
