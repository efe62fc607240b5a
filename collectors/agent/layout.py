"""The bytes of a ring file: its header, its records, and which row of the event table each record is.

A ring file is a header of one page, then `capacity` slots of 128 bytes. A record fills one slot, or several in a row
where its texts are long. A slot is little-endian:

    crc32 of the rest (4) | parts (2) | kind code (1) | flags (1) | place (8) | monotonic_ns (8) | spilled (4)
    | fixed values | tail

`place` starts at 1, is one higher in each slot, and says which slot it is: `place % capacity`. `parts` is how many
continuation slots follow, `spilled` how many there were before; so `place - spilled` counts records without a gap: the
`seq` of the row. The tail holds the texts: for each a length plus one (2; 0 is NULL), then UTF-8. What is not known is the
NULL of its format: the smallest integer, NaN, or 255.

Codes and enumerations only grow: never reorder, never reuse. A change of the layout itself raises VERSION.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

MAGIC = b"OOMCTLR\n"
VERSION = 1
SUFFIX = ".ring"

HEADER_BYTES = 4096
SLOT_BYTES = 128
SLOT_HEAD = struct.Struct("<IHBBQqI")
CRC = struct.Struct("<I")
LENGTH = struct.Struct("<H")
BODY_BYTES = SLOT_BYTES - SLOT_HEAD.size
SLOT_AFTER_CRC = struct.Struct(f"<IQqI{BODY_BYTES}s")
"""A slot behind its CRC, for writing: `slot_word`, place, monotonic_ns, spilled, body."""
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
"""The part of the header that never changes; its CRC follows it."""

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

PHASES = (
    "spawned", "loading", "weights_loaded", "profiling", "kv_allocated", "compiling", "capturing", "ready", "serving",
    "sleeping", "waking", "reloading", "draining", "stopped", "killed",
)  # fmt: skip
REQUEST_EVENTS = (
    "arrived", "queued", "admitted", "rejected", "scheduled", "blocks_changed", "first_token", "preempted", "resumed",
    "swapped_out", "swapped_in", "tool_wait_started", "tool_wait_ended", "finished", "cancelled", "blocks_freed",
)  # fmt: skip
SAMPLED_BY = ("all", "sample", "oom")
"""Why a request is in the record: all are kept, it was drawn, or it was alive at an OOM."""
ADAPTER_OPS = ("loaded", "evicted", "activated")
TRANSFER_OPS = ("send", "receive", "offload", "onboard", "swap")
RESOURCES = ("device", "kv_blocks", "host", "slots", "driver")
COMPONENTS = (
    "weights", "adapter", "kv_pool", "activation", "logits", "workspace", "collective", "graph_pool", "transfer",
    "context", "non_torch", "other",
)  # fmt: skip
LIFETIMES = ("worker", "request", "iteration", "allocator", "headroom")
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


@dataclass(frozen=True)
class RecordKind:
    """How one kind of record is packed.

    Attributes:
        code: The byte in the slot.
        name: The kind of the event table; a record is one row.
        values: The fixed values, in order.
        texts: The fields that stand in the tail, in order.
        slot: How a slot that begins a record is unpacked: SLOT_HEAD, the values, the tail.
        room: Bytes of the tail in that slot.
        pack: Packs a slot's body: the values, then the tail, cut to `room`.
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
        object.__setattr__(self, "pack", struct.Struct(f"<{packed}{room}s").pack)
        object.__setattr__(self, "word", slot_word(self.code))
        object.__setattr__(self, "nulls", tuple(NULLS[value.format] for value in self.values))


def _of(format_: str, *names: str) -> tuple[Packed, ...]:
    return tuple(Packed(name, format_) for name in names)


STEP = RecordKind(
    1,
    "step",
    (
        *_of("q", "step_id"),
        *_of(
            "i", "prefill_tokens", "decode_tokens", "cached_tokens", "running_requests", "waiting_requests",
            "logits_positions", "duration_us",
        ),
        Packed("dumped", "B", FLAG),
    ),
)  # fmt: skip
KV_POOL = RecordKind(
    2,
    "kv_pool",
    (
        *_of("i", "block_size_tokens", "total_blocks", "free_blocks", "used_blocks"),
        *_of(
            "q", "bytes_per_block", "total_tokens", "allocated_blocks", "freed_blocks", "preempted_requests",
            "preempted_tokens", "recomputed_tokens", "prefix_hit_tokens",
        ),
    ),
    ("tier", "group_id"),
)  # fmt: skip
"""At the end of each step, after its STEP."""
REQUEST = RecordKind(
    3,
    "request",
    (
        Packed("event", "B", REQUEST_EVENTS),
        Packed("sampled_by", "B", SAMPLED_BY),
        *_of("f", "sample_weight"),
        *_of("q", "step_id"),
        *_of(
            "i", "prompt_tokens", "cached_tokens", "max_output_tokens", "scheduled_tokens", "computed_tokens",
            "output_tokens", "kv_blocks", "kv_blocks_delta",
        ),
    ),
    ("request_id", "adapter"),
)  # fmt: skip
LIFECYCLE = RecordKind(4, "lifecycle", (Packed("phase", "B", PHASES), *_of("i", "exit_code", "signal")), ("detail",))
GRAPH = RecordKind(
    5,
    "graph",
    (*_of("q", "before_bytes", "after_bytes", "bytes"), Packed("shared", "B", FLAG)),
    ("shape", "pool_id", "mode"),
)
ALLOCATOR = RecordKind(
    6,
    "allocator",
    _of(
        "q", "allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "inactive_split_bytes",
        "largest_free_block_bytes", "private_pool_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
        "num_alloc_retries", "num_ooms",
    ),
)  # fmt: skip
DEVICE = RecordKind(7, "device", _of("q", "total_bytes", "used_bytes", "free_bytes", "budget_bytes"))
HOST = RecordKind(8, "host", _of("q", "rss_bytes", "shared_bytes", "swap_bytes"))
MEMORY = RecordKind(
    9,
    "memory",
    (Packed("component", "B", COMPONENTS), Packed("lifetime", "B", LIFETIMES), *_of("q", "bytes")),
    ("owner", "pool_id", "shape"),
)
ADAPTER = RecordKind(
    10,
    "adapter",
    (Packed("op", "B", ADAPTER_OPS), *_of("i", "lora_rank", "slots"), *_of("q", "bytes", "resident_bytes")),
    ("name",),
)
TRANSFER = RecordKind(
    11, "transfer", (Packed("op", "B", TRANSFER_OPS), *_of("q", "bytes", "tokens", "duration_us")), ("peer",)
)
OOM = RecordKind(
    12,
    "oom",
    (
        Packed("resource", "B", RESOURCES),
        Packed("fatal", "B", FLAG),
        *_of("i", "requests"),
        *_of(
            "q", "requested_bytes", "total_bytes", "free_bytes", "allocated_bytes", "reserved_bytes",
            "reserved_unallocated_bytes",
        ),
    ),
    ("api", "error_type", "message", "stack_id"),
)  # fmt: skip
FAULT = RecordKind(13, "fault", (Packed("fatal", "B", FLAG),), ("code", "detail", "stack_id"))
STACK = RecordKind(14, "stack", _of("i", "depth", "line"), ("stack_id", "file", "function", "code"))
MANIFEST = RecordKind(15, "manifest", (), ("section", "key", "value"))
COLLECTOR = RecordKind(16, "collector", _of("q", "cost_us", "errors", "realtime_ns"), ("name", "state", "detail"))
"""`realtime_ns` is the ring's own: what the wall clock showed at this record's monotonic_ns."""

RING_ONLY = frozenset({("collector", "realtime_ns")})
"""Values that relate records to each other and are no field of the event table."""

KINDS: dict[int, RecordKind] = {
    kind.code: kind
    for kind in (
        STEP, KV_POOL, REQUEST, LIFECYCLE, GRAPH, ALLOCATOR, DEVICE, HOST, MEMORY, ADAPTER, TRANSFER, OOM, FAULT, STACK,
        MANIFEST, COLLECTOR,
    )
}  # fmt: skip


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
