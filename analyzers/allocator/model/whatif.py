"""What a recorded run would have come to under other settings."""

from dataclasses import replace
from typing import Literal

import msgspec

from oomctl.analyzers.allocator.model.allocator import Allocator, OutOfMemory
from oomctl.analyzers.allocator.model.check import Check, Pools, check
from oomctl.analyzers.allocator.model.device import Device
from oomctl.analyzers.allocator.model.settings import Settings, settings_of
from oomctl.analyzers.allocator.rewind import rewind
from oomctl.schemas.heap import UNKNOWN, History, PoolId, Snapshot


class Outcome(msgspec.Struct, kw_only=True):
    """What the history's requests would have come to under some settings."""

    settings: str
    failed_at: int | None
    """Index of the request that does not fit; None where all do, or where already the blocks before the history do not."""
    failed_bytes: int | None
    """Of that request, or block; None where all fit."""
    peak_reserved_bytes: int
    peak_active_bytes: int
    reserved_bytes: int
    retries: int

    @property
    def fits(self) -> bool:
        """Whether every request was served."""
        return self.failed_bytes is None


def whatif(snapshot: Snapshot, device: int, settings: Settings, room_bytes: int | None) -> Outcome:
    """Serve a history's requests anew.

    Blocks that live before the first event are asked for first, in the order of their addresses: under other settings they
    would lie elsewhere. A request that fails in the history is tried; what came after it in the history is not.

    Args:
        snapshot: With the device's history.
        device: Which.
        settings: To try.
        room_bytes: What the process may take from the device, all segments together; None without end.
    """
    history = snapshot.histories[device]
    allocator = Allocator(Device(room_bytes), settings)
    start = rewind(snapshot, device, -1)
    pools = Pools(snapshot, device)
    place: dict[int, int] = {}
    peak = active = 0
    failed: tuple[int | None, int] | None = None

    def ask(address: int, size: int, stream: int, pool: PoolId) -> None:
        place[address] = allocator.malloc(size, stream, pool).address

    try:
        for segment in start.segments:
            for block in segment.blocks:
                if block.state != "inactive":
                    ask(block.address, block.requested_bytes or block.size_bytes, segment.stream, segment.pool)
    except OutOfMemory as error:
        failed = (None, error.block_bytes)
    for n, action in enumerate(history.actions):
        if failed is not None:
            break
        if action in ("alloc", "oom"):
            try:
                ask(history.addresses[n], history.sizes_bytes[n], max(history.streams[n], 0), pools.of(history, n))
            except OutOfMemory as error:
                failed = (n, error.block_bytes)
            peak, active = max(peak, allocator.reserved_bytes), max(active, allocator.active_bytes)
        elif action in ("free_completed", "free"):
            address = place.pop(history.addresses[n], None)
            if address is not None:
                allocator.free(address)
    return Outcome(
        settings=describe(settings),
        failed_at=failed[0] if failed is not None else None,
        failed_bytes=failed[1] if failed is not None else None,
        peak_reserved_bytes=max(peak, allocator.reserved_bytes),
        peak_active_bytes=max(active, allocator.active_bytes),
        reserved_bytes=allocator.reserved_bytes,
        retries=allocator.retries,
    )


Status = Literal["fits", "does_not_fit", "not_reproduced", "nothing_failed"]
"""`not_reproduced`: under its own settings the model serves what failed, or fails elsewhere: of others nothing can be said.
`nothing_failed`: neither in the history nor in the room that was given; only the peaks are compared."""


class Question(msgspec.Struct, kw_only=True):
    """What `oomctl snapshot whatif` answers for one device of one file."""

    file: str
    device: int
    status: Status
    """Whether the request that failed would have been served under the settings asked about."""
    room_bytes: int | None
    """What the process could take from the device; None where neither the history nor the user tells."""
    model: Check
    """How far the model follows this history under its own settings: what its answers are worth."""
    recorded: Outcome
    asked: Outcome


def ask(snapshot: Snapshot, device: int, settings: Settings, room_bytes: int | None = None) -> Question:
    """The recorded settings and others, side by side.

    Args:
        snapshot: With the device's history.
        device: Which.
        settings: To try.
        room_bytes: What the process may take; None takes what was reserved and free at the newest `oom` entry.
    """
    told = settings_of(snapshot.settings, settings.limit_bytes)
    room = room_bytes if room_bytes is not None else room_at_oom(snapshot, device)
    recorded, asked = (whatif(snapshot, device, each, room) for each in (told, settings))
    return Question(
        file=snapshot.name,
        device=device,
        status=_status(snapshot.histories[device], recorded, asked),
        room_bytes=room,
        model=check(snapshot, device, settings.limit_bytes),
        recorded=recorded,
        asked=asked,
    )


def _status(history: History, recorded: Outcome, asked: Outcome) -> Status:
    failed = recorded.failed_at
    if "oom" in history.actions:
        if failed is None or history.actions[failed] != "oom":
            return "not_reproduced"
    elif recorded.fits:
        return "nothing_failed"
    elif failed is None:
        return "not_reproduced"  # the room that was given does not even hold what was there before
    # What the program did after its failure is not known: only up to there can the two be compared.
    return "fits" if asked.fits or (asked.failed_at is not None and asked.failed_at > failed) else "does_not_fit"


def room_at_oom(snapshot: Snapshot, device: int) -> int | None:
    """Reserved and free together at the newest `oom` entry: what the process could have had; None without one."""
    history = snapshot.histories[device]
    n = history.newest_oom()
    if n is None or history.device_free_bytes[n] == UNKNOWN:
        return None
    return sum(segment.total_bytes for segment in rewind(snapshot, device, n).segments) + history.device_free_bytes[n]


def describe(settings: Settings) -> str:
    """As PYTORCH_CUDA_ALLOC_CONF spells it."""
    default = replace(Settings(), limit_bytes=settings.limit_bytes)
    parts = []
    if settings.expandable:
        parts.append("expandable_segments:True")
    if settings.max_split_bytes != default.max_split_bytes:
        parts.append(f"max_split_size_mb:{settings.max_split_bytes >> 20}")
    if settings.gc_threshold:
        parts.append(f"garbage_collection_threshold:{settings.gc_threshold:g}")
    if len(set(settings.divisions)) == 1 and settings.divisions[0]:
        parts.append(f"roundup_power2_divisions:{settings.divisions[0]}")
    elif any(settings.divisions):
        each = ",".join(f"{1 << n}:{value}" for n, value in enumerate(settings.divisions) if value)
        parts.append(f"roundup_power2_divisions:[{each}]")
    return ",".join(parts) or "the defaults"
