"""The failed allocation that a snapshot was taken for, as the row of an out-of-memory event."""

import re
from operator import itemgetter
from typing import Any

from oomctl.schemas.heap import DEFAULT_POOL, NO_STACK, UNKNOWN, History, Snapshot

INFERRED = "snapshot_at_oom"
"""Error type of a failure of which no entry was kept."""
_NAMED = re.compile(r"(?i)(?<![a-z])(cuda[_-]?)?oom(?![a-z])|out[_ -]?of[_ -]?memory")
_DENIED = re.compile(r"(?i)(?<![a-z])(no|non|not|without|never|before|pre)[ _.-]*(cuda[ _-]?)?(oom|out[ _-]?of)(?![a-z])")
_CHANGES = frozenset(
    {"alloc", "free_requested", "free_completed", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap"}
)

Failure = tuple[int, int | None, str, dict[str, Any]]
"""(device, time in microseconds, quality, fields of the row)."""


def failure(snapshot: Snapshot) -> Failure | None:
    """The newest `oom` entry; without one, what the file's name says, where the state bears it out; else None.

    A history of one entry loses its `oom` entry to the `snapshot` entry that follows. An allocator that fails has flushed
    its cache before: whoever names a file after an OOM, and no whole segment is left to give back, saved it at the OOM.
    A longer history would have kept the entry: where it has none, nothing failed, whatever the file is called.
    """
    each = ((device, history, history.newest_oom()) for device, history in snapshot.histories.items())
    failed = [(history.times_us[n], device, n) for device, history, n in each if n is not None]
    if failed:
        _, device, n = max(failed, key=itemgetter(0))
        return _entry(snapshot, device, n)
    name = snapshot.name.rsplit("/", 1)[-1]
    told = any(len(history) > 1 for history in snapshot.histories.values())
    if not told and _NAMED.search(name) and not _DENIED.search(name) and _flushed(snapshot):
        return _inferred(snapshot)
    return None


def _entry(snapshot: Snapshot, device: int, n: int) -> Failure:
    history = snapshot.histories[device]
    time, free = history.times_us[n], history.device_free_bytes[n]
    fields = {
        "resource": "device",
        "api": "torch",
        "error_type": "OutOfMemoryError",
        "message": f"oom entry {n} of the allocator's history",
        "requested_bytes": history.sizes_bytes[n],
        "free_bytes": free if free != UNKNOWN else None,
        "stack_id": f"s{history.stacks[n]}" if history.stacks[n] != NO_STACK else None,
    }
    if not any(action in _CHANGES for action in history.actions[n + 1 :]):
        fields |= _held(snapshot, device)
    return device, time if time != UNKNOWN else None, "measured", fields


def _inferred(snapshot: Snapshot) -> Failure:
    device = max(
        snapshot.devices, key=lambda each: sum(s.total_bytes for s in snapshot.segments if s.device == each), default=0
    )
    kept = len(snapshot.histories.get(device, History()))
    why = f"the file's name tells of an OOM, its history (entries kept: {kept}) does not; the cache had been flushed"
    fields = {"resource": "device", "api": "torch", "error_type": INFERRED, "message": why} | _held(snapshot, device)
    return device, None, "derived", fields


def _held(snapshot: Snapshot, device: int) -> dict[str, int]:
    """In the form of PyTorch's message: free blocks of private pools count as allocated there, pending ones as free."""
    segments = [segment for segment in snapshot.segments if segment.device == device]
    reserved = sum(segment.total_bytes for segment in segments)
    allocated = sum(b.size_bytes for s in segments for b in s.blocks if b.state == "active_allocated")
    private = sum(b.size_bytes for s in segments if s.pool != DEFAULT_POOL for b in s.blocks if b.state == "inactive")
    return {
        "allocated_bytes": allocated + private,
        "reserved_unallocated_bytes": reserved - allocated - private,
        "private_pool_bytes": private,
    }


def _flushed(snapshot: Snapshot) -> bool:
    """Whether no segment of a default pool is wholly free: as a flush of the cache leaves it."""
    segments = [segment for segment in snapshot.segments if segment.pool == DEFAULT_POOL and not segment.expandable]
    return bool(snapshot.segments) and all(any(b.state != "inactive" for b in s.blocks) for s in segments)
