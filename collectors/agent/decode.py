"""From a slot's bytes to a record with named values."""

import struct
from dataclasses import dataclass
from typing import Any

from oomctl.collectors.agent.layout import FLAG, NULLS, SLOT_HEAD, RecordKind, unpack_texts


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Attributes:
        seq: One higher in each record of a ring; a gap is lost records.
        monotonic_ns: When it was written.
        ts: The same in microseconds since 1970, by the ring's last reading of the wall clock before it.
        kind: Which values and texts it has.
        values: Field to value, as `kind.values` and `kind.texts` name them; None is NULL.
        cut: Whether its texts are not whole.
    """

    seq: int
    monotonic_ns: int
    ts: int
    kind: RecordKind
    values: dict[str, Any]
    cut: bool


def decode(kind: RecordKind, slot: bytes, rest: bytes, offset_ns: int, cut: bool) -> Record:
    """The record that a slot begins.

    Args:
        kind: By the slot's code.
        slot: Its SLOT_BYTES.
        rest: The tails of the slots that continue it.
        offset_ns: Wall clock less monotonic clock then.
        cut: Whether some of them are missing.
    """
    _, _, _, _, place, monotonic_ns, spilled, *values, tail = kind.slot.unpack(slot)
    found = {
        packed.name: (
            None if value == (null := NULLS[packed.format]) or (null != null and value != value)
            else value if not packed.values
            else _meaning(packed.values, value)
        )
        for packed, value in zip(kind.values, values, strict=True)
    }  # fmt: skip
    if kind.texts:
        found.update(zip(kind.texts, unpack_texts(tail + rest, len(kind.texts)), strict=True))
    return Record(place - spilled, monotonic_ns, (monotonic_ns + offset_ns) // 1000, kind, found, cut)


def offset_of(kind: RecordKind, name: str) -> slice:
    """Where a fixed value stands in a slot."""
    formats = [(packed.name, packed.format) for packed in kind.values]
    before = "".join(format_ for _, format_ in formats[: [each for each, _ in formats].index(name)])
    start = SLOT_HEAD.size + struct.calcsize(f"<{before}")
    return slice(start, start + struct.calcsize(f"<{dict(formats)[name]}"))


def _meaning(values: tuple[str, ...], value: int) -> bool | str | None:
    if values == FLAG:
        return bool(value)
    # A later version may have added one.
    return values[value] if value < len(values) else None
