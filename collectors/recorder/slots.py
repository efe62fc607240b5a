"""Records of rings as they are kept in live files: the slots themselves, column by column, decoded by who reads them.

Steps, pool figures and request changes are nearly all that a worker writes. To make a row of each would cost the recorder
more than all the rest; to copy its slot costs little, and packs better. Their texts are ids, so nothing has to be redacted.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from oomctl.collectors.agent.decode import decode
from oomctl.collectors.agent.kinds import KINDS, KV_POOL, REQUEST, STEP
from oomctl.collectors.agent.layout import CHECKSUM, SLOT_BYTES
from oomctl.collectors.agent.rows import to_row
from oomctl.schemas.rows import Row

KEPT = frozenset(kind.code for kind in (STEP, KV_POOL, REQUEST))
"""Codes of the kinds that are kept so."""
CODE = 6
"""Where a slot's code stands."""
WIDTH = SLOT_BYTES - CHECKSUM.size
"""What is kept of a slot: a frame has a CRC of its own."""


class Slots(msgspec.Struct, kw_only=True):
    """Some records of one ring.

    Attributes:
        common: The columns that their rows share.
        offset_ns: Wall clock less the ring's monotonic clock.
        columns: The first byte of each slot, then the second of each, and so on, without their checksums.
    """

    common: dict[str, Any]
    offset_ns: int
    columns: bytes

    def __len__(self) -> int:
        return len(self.columns) // WIDTH

    def rows(self) -> Iterator[Row]:
        """The rows of the records, in order."""
        count, slots = len(self), bytearray(len(self) * SLOT_BYTES)
        for at in range(WIDTH):
            slots[CHECKSUM.size + at :: SLOT_BYTES] = self.columns[at * count : (at + 1) * count]
        for start in range(0, len(slots), SLOT_BYTES):
            if (code := slots[start + CODE]) in KEPT:
                slot = bytes(slots[start : start + SLOT_BYTES])
                yield to_row(decode(KINDS[code], slot, b"", self.offset_ns, cut=False), self.common)


def all_rows(rows: Iterable[Row], slots: Iterable[Slots]) -> Iterator[Row]:
    """What one round brought, all of it as rows; those of one ring in order."""
    for kept_ones in slots:
        yield from kept_ones.rows()
    yield from rows


def kept(common: dict[str, Any], offset_ns: int, slots: bytes) -> Slots:
    """What is kept of slots that lie one behind the other."""
    columns = b"".join(slots[at::SLOT_BYTES] for at in range(CHECKSUM.size, SLOT_BYTES))
    return Slots(common=common, offset_ns=offset_ns, columns=columns)
