"""The forms in which engines publish KV events, as one.

Seen on the wire: vLLM to 0.23 and old SGLang, arrays in an array; vLLM since, SGLang 0.5.23 and TensorRT-LLM, maps in an
array; a branch of vLLM, maps in a map. TensorRT-LLM's /kv_cache_events and Dynamo's router events are JSON of their own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

MAX_PAYLOAD_BYTES = 4 << 20
"""A step of 100,000 tokens takes half a megabyte; 64 bytes of memory may stand behind one of a message."""
MAX_HASHES = 100_000
"""Of one batch; a pool of a million blocks is cleared by one event, not by a million."""

MEDIA = {
    **dict.fromkeys(("GPU", "DEVICE"), "device"),
    **dict.fromkeys(("CPU", "CPU_PINNED", "CPU_TIER1", "HOSTPINNED", "HOST"), "host"),
    **dict.fromkeys(("CPU_TIER2", "DISK", "NVME", "STORAGE"), "disk"),
    **dict.fromkeys(("EXTERNAL", "NETWORK", "REMOTE", "SHARED"), "remote"),
}
"""Dynamo's table of media, to the tiers of the event table."""

ARRAY_FIELDS = {
    "BlockStored": ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"),
    "BlockRemoved": ("block_hashes", "medium"),
    "AllBlocksCleared": (),
}


_NUMBER = re.compile(r"-?[0-9]{1,20}")


class BadEvents(ValueError):
    """A message that is no batch of KV events."""


@dataclass(frozen=True)
class Event:
    """One change of the index.

    Attributes:
        op: stored, removed or cleared.
        hashes: Hex, of its blocks.
        parent: Hex, of the block before the first.
        block_tokens: Tokens of each block, where told.
        medium: device, host, disk, remote, or as printed where it is none of these.
        group_id: KV cache group.
    """

    op: str
    hashes: tuple[str, ...] = ()
    parent: str | None = None
    block_tokens: int | None = None
    medium: str | None = None
    group_id: str | None = None


@dataclass(frozen=True)
class EventBatch:
    """One message.

    Attributes:
        ts_us: When it was made; None where not told.
        rank: Data-parallel rank.
        events: In order.
        unknown: Events of a type that is not known here.
    """

    ts_us: int | None
    rank: int | None
    events: tuple[Event, ...]
    unknown: int = 0


def decode(payload: bytes) -> EventBatch:
    """Read a msgpack message.

    Raises:
        BadEvents: If it is none, too large, or too deep.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise BadEvents(f"{len(payload)} bytes")
    try:
        message = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadEvents(str(error)) from error
    if isinstance(message, list) and len(message) >= 2:
        ts, events, rank = message[0], message[1], message[2] if len(message) > 2 else None
    elif isinstance(message, dict):
        ts, events = message.get("ts"), message.get("events")
        rank = message.get("data_parallel_rank", message.get("attn_dp_rank"))
    else:
        raise BadEvents("neither an array nor a map")
    if not isinstance(events, list):
        raise BadEvents("no list of events")
    found = [_event(_named(one)) for one in events]
    known = tuple(event for event in found if event is not None)
    if sum(len(event.hashes) for event in known) > MAX_HASHES:
        raise BadEvents("more blocks than are read")
    return EventBatch(_microseconds(ts), _integer(rank), known, len(found) - len(known))


def of_json(message: Any) -> EventBatch:
    """Read one JSON event of TensorRT-LLM (POST /kv_cache_events) or of Dynamo's router.

    Raises:
        BadEvents: If it is neither.
    """
    if isinstance(message, dict) and isinstance(message.get("event"), dict):
        rank = message["event"].get("dp_rank")
        found = list(_dynamo(message["event"].get("data"), message.get("storage_tier")))
    elif isinstance(message, dict) and isinstance(message.get("data"), dict):
        rank = message.get("attention_dp_rank")
        found = list(_tensorrt_llm(message["data"]))
    else:
        raise BadEvents("neither TensorRT-LLM's form nor Dynamo's")
    made = isinstance(message.get("data"), dict) and message["data"].get("type") == "created"  # the pool: no change of it
    if sum(len(event.hashes) for event in found) > MAX_HASHES:
        raise BadEvents("more blocks than are read")
    return EventBatch(None, _integer(rank), tuple(found), int(not found and not made))


def hex_of(value: Any) -> str | None:
    """A block hash as hex: 64 bits of an integer, signed or not, or the bytes as they are.

    Engines print the same hash signed in one place and unsigned in another; its bits are the same.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return f"{value & 0xFFFF_FFFF_FFFF_FFFF:016x}"
    if isinstance(value, bytes) and len(value) <= 64:
        return value.hex()
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return hex_of(int(value))
    return None


def _named(event: Any) -> dict[str, Any]:
    """An event as a map, whichever form it came in."""
    if isinstance(event, dict):
        return event
    if isinstance(event, list) and event and isinstance(event[0], str):
        return {"type": event[0], **dict(zip(ARRAY_FIELDS.get(event[0], ()), event[1:], strict=False))}
    return {}


def _event(event: dict[str, Any]) -> Event | None:
    medium, group = _medium(event.get("medium")), event.get("group_idx")
    group_id = str(group) if isinstance(group, int) else None
    match event.get("type"):
        case "BlockStored":
            size = _integer(event.get("block_size"))
            parent = hex_of(event.get("parent_block_hash"))
            return Event("stored", _hashes(event.get("block_hashes")), parent, size, medium, group_id)
        case "BlockRemoved":
            return Event("removed", _hashes(event.get("block_hashes")), medium=medium, group_id=group_id)
        case "AllBlocksCleared":
            return Event("cleared")
        case _:
            return None


def _tensorrt_llm(data: dict[str, Any]) -> Iterator[Event]:
    match data.get("type"):
        case "stored":
            for block in data.get("blocks") or ():
                if isinstance(block, dict) and (found := hex_of(block.get("block_hash"))) is not None:
                    tokens = block.get("tokens")
                    medium = "device" if block.get("cache_level", 0) == 0 else "host"
                    size = len(tokens) if isinstance(tokens, list) else None
                    yield Event("stored", (found,), hex_of(data.get("parent_hash")), size, medium)
        case "removed":
            yield Event("removed", _hashes(data.get("block_hashes")))
        case "updated" if (
            isinstance(data.get("cache_level"), dict) and (found := hex_of(data.get("block_hash"))) is not None
        ):
            # A block that moves to another level is removed from one and stored in the other.
            levels = data["cache_level"]
            for op, key in (("removed", "old"), ("stored", "new")):
                yield Event(op, (found,), medium="device" if levels.get(key, levels.get(f"{key}_value")) == 0 else "host")


def _dynamo(data: Any, tier: Any) -> Iterator[Event]:
    medium = _medium(tier)
    if data == "cleared" or (isinstance(data, dict) and "cleared" in data):
        yield Event("cleared")
    elif isinstance(data, dict) and isinstance(data.get("stored"), dict):
        stored = data["stored"]
        blocks = [block.get("block_hash") for block in stored.get("blocks") or () if isinstance(block, dict)]
        yield Event("stored", _hashes(blocks), hex_of(stored.get("parent_hash")), medium=medium)
    elif isinstance(data, dict) and isinstance(data.get("removed"), dict):
        yield Event("removed", _hashes(data["removed"].get("block_hashes")), medium=medium)


def _hashes(values: Any) -> tuple[str, ...]:
    found = (hex_of(value) for value in values) if isinstance(values, list) else ()
    return tuple(value for value in found if value is not None)


def _medium(value: Any) -> str | None:
    return MEDIA.get(value.upper(), value[:40]) if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _microseconds(ts: Any) -> int | None:
    return int(ts * 1e6) if isinstance(ts, int | float) and not isinstance(ts, bool) and 0 < ts < 1e11 else None
