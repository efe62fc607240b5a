"""The slots of a mapped ring file: which are whole, of which lap, and what a missing one means."""

import mmap
from collections.abc import Callable
from typing import NamedTuple

from oomctl.collectors.agent.layout import CHECKSUM, CONTINUATION, HEADER_BYTES, MAX_PARTS, SLOT_BYTES, SLOT_HEAD

MAX_PLACE = 1 << 62
"""No worker writes as many slots; a higher one is made up, and its seq would not fit into the event table."""


class Slot(NamedTuple):
    """The head of a slot (layout.SLOT_HEAD)."""

    checksum: int
    parts: int
    code: int
    flags: int
    place: int
    monotonic_ns: int
    spilled: int


class RingSlots:
    """Looks into the slots of one ring while it is written.

    Args:
        view: The mapped file.
        capacity: Its slots.
        checksum: Of a slot, by the version of the layout.
    """

    def __init__(self, view: mmap.mmap, capacity: int, checksum: Callable[[bytes], int]) -> None:
        self._map = view
        self._capacity = capacity
        self._checksum = checksum

    def raw(self, place: int) -> bytes:
        """The bytes where this place's slot is, of whatever lap."""
        at = HEADER_BYTES + place % self._capacity * SLOT_BYTES
        return self._map[at : at + SLOT_BYTES]

    def single(self, wanted: int, codes: frozenset[int]) -> tuple[bytes, int] | None:
        """(slot, seq) of the record at this place, where it is whole, of one of these kinds, and fills one slot."""
        raw = self.raw(wanted)
        checksum, parts, code, _, place, _, spilled = SLOT_HEAD.unpack_from(raw)
        if place != wanted or parts or code not in codes or checksum != self._checksum(raw[CHECKSUM.size :]):
            return None
        if not spilled < place < MAX_PLACE:
            return None
        return raw, place - spilled

    def oldest(self) -> int:
        """The place to begin with; 1 in a ring that was not written yet."""
        places = (slot.place for at in range(self._capacity) if (slot := self.whole(at)) is not None)
        oldest = max(max(places, default=0) - self._capacity, 0) + 1
        # In a ring that went round, this is the slot that the next record was being written into.
        return oldest + (oldest > 1 and self.at(oldest) is None)

    def beyond(self, next_place: int, final: bool) -> int | None:
        """Where reading goes on although the next place is not there; None where nothing was written after it.

        A writer that lives has written nothing behind a slot that it has not begun; only a crash of the whole node can have
        kept later pages and lost earlier ones.
        """
        here = self.whole(next_place)
        if here is not None and here.place > next_place:
            return here.place - self._capacity + 1
        if here is not None and not final:
            return None
        for place in range(next_place + 1, next_place + min(MAX_PARTS + 2, self._capacity)):
            slot = self.whole(place)
            if slot is not None and slot.place >= place and slot.code != CONTINUATION:
                return place
        return None

    def is_torn(self, place: int) -> bool:
        """Whether this place was begun: its slot is not whole, or slots that continue it are there."""
        here = self.whole(place)
        if here is None:
            return True
        following = self.at(place + 1)
        return here.place < place and following is not None and following.code == CONTINUATION

    def whole(self, place: int) -> Slot | None:
        """What stands in this place's slot, of whatever lap; None if it is not whole. Place 0: never written."""
        raw = self.raw(place)
        slot = Slot(*SLOT_HEAD.unpack_from(raw))
        if slot.checksum != self._checksum(raw[CHECKSUM.size :]):
            return slot if not any(raw) else None
        if not slot.spilled < slot.place < MAX_PLACE:
            return None
        return slot if slot.place % self._capacity == place % self._capacity else None

    def at(self, place: int) -> Slot | None:
        """This very place, if it is there and whole."""
        slot = self.whole(place)
        return slot if slot is not None and slot.place == place else None
