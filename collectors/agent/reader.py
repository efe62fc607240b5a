"""Reading rings, also while they are written and after their process was killed.

A record counts only if its checksum holds and its place belongs to its slot. So a slot that was being written at the
kill is seen and counted, and so is each record that the ring's end overtook before it was read.
"""

import mmap
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from oomctl.collectors.agent.decode import Record, decode
from oomctl.collectors.agent.header import MAX_OFFSET_NS, Header, opened, read_header, with_counters
from oomctl.collectors.agent.kinds import KINDS
from oomctl.collectors.agent.layout import (
    CHECKSUMS,
    CONTINUATION,
    FLAG_CUT,
    HEADER_BYTES,
    MAX_PARTS,
    SLOT_HEAD,
    SUFFIX,
)
from oomctl.collectors.agent.slots import RingSlots, Slot
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
            with opened(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size < HEADER_BYTES:
                    raise OomctlError(f"no ring file: shorter than its header ({path})")
                self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except OSError as error:
            raise OomctlError(f"cannot read the ring: {error.strerror} ({path})") from error
        try:
            header = self._header = read_header(self._map, path)
        except OomctlError:
            self.close()
            raise
        self._slots = RingSlots(self._map, header.capacity, CHECKSUMS[header.version])
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
    def is_cut(self) -> bool:
        """Whether somebody truncated the file: to read what is mapped behind its end would end this process (SIGBUS)."""
        return self._map.size() < len(self._map)

    @property
    def header(self) -> Header:
        """The header as it was at first, with its counters as they are now: its worker may spoil the rest at any time."""
        return with_counters(self._header, self._map)

    def read(self, *, final: bool = False, limit: int | None = None, as_slots: frozenset[int] = frozenset()) -> Batch:
        """What came since the last read; at the first, all that the ring still holds.

        Args:
            final: The process is known to be dead: a slot that is not whole is torn, not just being written.
            limit: At most so many records; the next read goes on there.
            as_slots: Codes of kinds that are given as they are where they fill one slot: not decoded, they cost a tenth.
        """
        batch = Batch()
        if self._place == 0:
            self._place = self._slots.oldest()
        torn, taken = 0, 0
        slots: list[bytes] = []
        while limit is None or taken < limit:
            if as_slots and (single := self._slots.single(self._place, as_slots)) is not None:
                raw, seq = single
                self._lost(seq, torn, batch)
                slots.append(raw)
                self._place, torn, taken = self._place + 1, 0, taken + 1
                continue
            slot = self._slots.at(self._place)
            if slot is None:
                beyond = self._slots.beyond(self._place, final)
                if beyond is None:
                    break
                # Overtaken, or torn: the writer never comes back to a place before a whole head.
                torn += self._slots.is_torn(self._place)
                self._place = beyond
            elif slot.code == CONTINUATION:
                # Its head was torn or overtaken.
                self._place += 1
            elif (record := self._record(slot)) is not None:
                seq = slot.place - slot.spilled
                self._lost(seq, torn, batch)
                torn, taken = 0, taken + 1
                self._place += 1 + slot.parts
                self._keep(record, batch, slots)
        if final and (limit is None or taken < limit) and self._slots.is_torn(self._place):
            batch.torn += 1
            self._place += 1
        self._put_down(slots, batch)
        return batch

    def close(self) -> None:
        """Give the map back."""
        self._map.close()

    def _lost(self, seq: int, torn: int, batch: Batch) -> None:
        """Count what is missing before a record; what was made up may count backwards."""
        lost = max(seq - self._seq - 1, 0)
        self._seq = max(seq, self._seq)
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
        if realtime_ns is not None and abs(realtime_ns - record.monotonic_ns) <= MAX_OFFSET_NS:
            self._put_down(slots, batch)
            step = realtime_ns - record.monotonic_ns - self._offset_ns
            self._offset_ns += step
            if abs(step) >= CLOCK_STEP_NS:
                batch.clock_steps_ns.append(step)
        batch.records.append(record)

    def _record(self, slot: Slot) -> Record | int | None:
        """The record that starts here; its code if the kind is unknown; None if it was overtaken meanwhile."""
        kind = KINDS.get(slot.code)
        if kind is None:
            return slot.code
        head = self._slots.raw(slot.place)
        cut = bool(slot.flags & FLAG_CUT)
        rest = b""
        for place in range(slot.place + 1, slot.place + 1 + min(slot.parts, MAX_PARTS)):
            part = self._slots.at(place)
            if part is None or part.code != CONTINUATION:
                cut = True
                break
            rest += self._slots.raw(place)[SLOT_HEAD.size :]
        if self._slots.at(slot.place) != slot:
            return None
        return decode(kind, head, rest, self._offset_ns, cut)


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
