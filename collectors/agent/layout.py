"""The bytes of a ring file: its header, its slots, and how a record is packed into them.

A ring file is a header of one page, then `capacity` slots of 128 bytes. A record fills one slot, or several in a row
where its texts are long. A slot is little-endian:

    checksum of the rest (4) | parts (2) | kind code (1) | flags (1) | place (8) | monotonic_ns (8) | spilled (4)
    | fixed values | tail

`place` starts at 1, is one higher in each slot, and says which slot it is: `place % capacity`. `parts` is how many
continuation slots follow, `spilled` how many there were before; so `place - spilled` counts records without a gap: the
`seq` of the row. The tail holds the texts: for each a length plus one (2; 0 is NULL), then UTF-8. What is not known is the
NULL of its format: the smallest integer, NaN, or 255.

The checksum is Adler-32; it was CRC-32 in version 1. It tells a slot that is half written from a whole one. zlib's CRC
reads 16 KB of tables, which are in no cache after a step of the engine: there it costs 6 us. Adler-32 has none.

Codes and enumerations only grow: never reorder, never reuse. A change of the layout itself raises VERSION.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import adler32, crc32

MAGIC = b"OOMCTLR\n"
VERSION = 2
"""What is written."""
CHECKSUMS: dict[int, Callable[[bytes], int]] = {1: crc32, 2: adler32}
"""What is read: the checksum of a slot in each version."""
SUFFIX = ".ring"

HEADER_BYTES = 4096
SLOT_BYTES = 128
SLOT_HEAD = struct.Struct("<IHBBQqI")
CHECKSUM = struct.Struct("<I")
LENGTH = struct.Struct("<H")
BODY_BYTES = SLOT_BYTES - SLOT_HEAD.size
HEAD_AFTER_CHECKSUM = "<IQqI"
"""The head of a slot for writing: `slot_word`, place, monotonic_ns, spilled."""
SLOT_AFTER_CHECKSUM = struct.Struct(f"{HEAD_AFTER_CHECKSUM}{BODY_BYTES}s")
"""A slot that continues a record, for writing."""
SLOT_WHOLE = struct.Struct(f"<I{SLOT_AFTER_CHECKSUM.size}s")
"""A slot: its checksum, and the rest."""
CONTINUATION = 0
MAX_PARTS = 600
"""Bounds a text to about 62 KB, so that one message cannot wash a ring out."""

FLAG_CUT = 1
"""The texts were longer than MAX_PARTS allows."""

HEADER = struct.Struct("<8sHHHxxIIIiiQqq40s96s128s32s16s64s")
HEADER_FIELDS = (
    "magic", "version", "header_bytes", "slot_bytes", "capacity", "pid", "thread_id", "rank", "device_id", "start_ticks",
    "monotonic_ns", "realtime_ns", "boot_id", "incarnation", "worker", "rank_name", "role", "engine",
)  # fmt: skip
"""The part of the header that never changes; its CRC-32 follows it."""

CONTROL_OFFSET = 1024
"""One byte, written from outside: 1 records, 0 pauses."""
STATE_OFFSET = 1025
"""One byte: 0 while the process writes, 1 after it ended in order."""
DROPPED_OFFSET = 1032
"""Eight bytes: records that could not be written."""
ERRORS_OFFSET = 1040
"""Eight bytes: exceptions inside the agent, all of which were kept from the engine."""
COUNTER = struct.Struct("<Q")

NULL_I32 = -(2**31)
NULL_I64 = -(2**63)
NULL_U8 = 255
NULL_FLOAT = math.nan
NULLS: dict[str, float] = {"i": NULL_I32, "q": NULL_I64, "B": NULL_U8, "f": NULL_FLOAT}

FLAG = ("false", "true")


def slot_word(code: int, parts: int = 0, flags: int = 0) -> int:
    """`parts`, `code` and `flags` as the one number that they are in the slot: fewer arguments are packed faster."""
    return parts | code << 16 | flags << 24


@dataclass(frozen=True)
class Packed:
    """One fixed value of a record.

    Attributes:
        name: The field of the record's kind.
        format: Its `struct` code: i, q, B or f.
        values: What the code stands for, where it is an enumeration; FLAG for a boolean.
    """

    name: str
    format: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordKind:
    """How one kind of record is packed.

    Attributes:
        code: The byte in the slot.
        name: The kind of the event table; a record is one row.
        values: The fixed values, in order.
        texts: The fields that stand in the tail, in order.
        slot: How a slot that begins a record is unpacked: SLOT_HEAD, the values, the tail.
        room: Bytes of the tail in that slot.
        pack: Packs a slot behind its checksum: word, place, monotonic_ns, spilled, the values, the tail, cut to `room`.
        word: `slot_word` of a record of one slot.
        nulls: The value of each field that is not known.
    """

    code: int
    name: str
    values: tuple[Packed, ...] = ()
    texts: tuple[str, ...] = ()
    slot: struct.Struct = field(init=False, repr=False, compare=False)
    room: int = field(init=False, repr=False, compare=False)
    pack: Callable[..., bytes] = field(init=False, repr=False, compare=False)
    word: int = field(init=False, repr=False, compare=False)
    nulls: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fixed = SLOT_HEAD.format + "".join(value.format for value in self.values)
        offset = struct.calcsize(fixed)
        if offset > SLOT_BYTES:
            raise ValueError(f"{self.name}: {offset} bytes do not fit into a slot")
        room = SLOT_BYTES - offset
        object.__setattr__(self, "room", room)
        object.__setattr__(self, "slot", struct.Struct(f"{fixed}{room}s"))
        packed = "".join(value.format for value in self.values)
        object.__setattr__(self, "pack", struct.Struct(f"{HEAD_AFTER_CHECKSUM}{packed}{room}s").pack)
        object.__setattr__(self, "word", slot_word(self.code))
        object.__setattr__(self, "nulls", tuple(NULLS[value.format] for value in self.values))


def pack_texts(*texts: str | None) -> bytes:
    """The tail of a record: its texts in the order of RecordKind.texts; those left out at the end are NULL."""
    parts: list[bytes] = []
    for text in texts:
        if text is None:
            parts.append(b"\0\0")
        else:
            encoded = text.encode("utf-8", "replace")[:0xFFFE]
            parts.append(LENGTH.pack(len(encoded) + 1) + encoded)
    return b"".join(parts)


def unpack_texts(tail: bytes, count: int) -> list[str | None]:
    """The texts of a tail. One that is cut short is given as far as it goes; those behind it are NULL."""
    texts: list[str | None] = []
    offset = 0
    for _ in range(count):
        length = LENGTH.unpack_from(tail, offset)[0] if offset + LENGTH.size <= len(tail) else 0
        offset += LENGTH.size
        texts.append(tail[offset : offset + length - 1].decode("utf-8", "replace") if length else None)
        offset += max(length - 1, 0)
    return texts
