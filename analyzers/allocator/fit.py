"""Why an allocation did not fit: each cause is undone on paper, and what that gives back is held against what was short."""

import re
from dataclasses import replace
from typing import Literal

import msgspec

from oomctl.analyzers.allocator.model.allocator import Allocator, OutOfMemory
from oomctl.analyzers.allocator.model.device import Device
from oomctl.analyzers.allocator.model.settings import Settings, settings_of
from oomctl.analyzers.allocator.model.state import adopt, adoptable
from oomctl.analyzers.allocator.rules import LARGE_SEGMENT_BYTES, SMALL_BYTES, segment_bytes
from oomctl.analyzers.allocator.state import Pool, pools, total
from oomctl.schemas.heap import DEFAULT_POOL, UNKNOWN, History, PoolId, Snapshot

Cause = Literal[
    "limit", "allocator_anomaly", "flush_skipped", "driver_refusal", "fragmentation", "private_pools", "other_streams",
    "non_torch", "other_process", "exhaustion",
]  # fmt: skip
Served = Literal["cache", "device", "flush"]
BASELINE_BYTES = 512 << 20
"""Of the non-PyTorch memory of a process: its context and libraries; real messages tell 0.1 to 0.7 GiB."""
FULL_RATIO = 0.95
"""Of what the process could have had: allocated to that share, reclaiming would not have been enough for long."""
_OUTSIDE: tuple[Cause, ...] = ("non_torch", "other_process")
"""What lies outside of PyTorch: less of it gives no room below a limit that counts PyTorch's own memory."""
_FRACTION = re.compile(r"per_process_memory_fraction\s*:\s*(\d*\.?\d+)")
HELPS: dict[Cause, tuple[str, ...]] = {
    "limit": ("raise the memory fraction that the process set on itself",),
    "allocator_anomaly": ("was it taken in an OOM observer? If so, see pytorch#189504, or unset throw_on_cudamalloc_oom",),
    "flush_skipped": ("capture fewer or smaller graphs, or empty the cache before the capture begins",),
    "driver_refusal": (
        "did the process set itself a memory fraction? No snapshot tells that: try `snapshot FILE --limit SIZE`",
        "the device had room: look for limits of address space, fabric or driver, not for memory",
    ),
    "fragmentation": (
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "max_split_size_mb below the size of the large requests",
        "allocate the large and lasting first; make requests of fewer different sizes (roundup_power2_divisions)",
    ),
    "private_pools": ("capture fewer graph sizes, or let the graphs share one pool",),
    "other_streams": ("allocate on the stream that uses the memory, or wait for record_stream's events before",),
    "non_torch": ("look at memory outside PyTorch: collectives, libraries' workspaces, graphs' own memory",),
    "other_process": ("move the other processes off the device, or lower what they may take",),
    "exhaustion": ("ask for less at once (a smaller batch, chunk or cache), or spread the model over more devices",),
}


class Request(msgspec.Struct, kw_only=True, frozen=True):
    """An allocation that failed, or that is asked about; what is None was not observed."""

    request_bytes: int
    device: int = 0
    stream: int = 0
    pool: PoolId = DEFAULT_POOL
    device_free_bytes: int | None = None
    limit_bytes: int | None = None
    total_bytes: int | None = None
    own_process_bytes: int | None = None
    others_bytes: int | None = None
    capturing: bool = False
    index: int | None = None
    """Of the oom entry in the device's history."""


class Margin(msgspec.Struct, kw_only=True, frozen=True):
    """What undoing one cause would give back; None where that was not observed."""

    cause: Cause
    reclaim_bytes: int | None
    sufficient: bool | None


class Fit(msgspec.Struct, kw_only=True):
    """What the test found.

    `short_bytes` is what a new segment lacked of the device's free memory, or of what the process's own limit left: the
    larger of the two. It is an upper bound where neither is known (`assumed_full`).
    """

    request: Request
    block_bytes: int
    segment_bytes: int
    short_bytes: int
    assumed_full: bool
    eligible_free_bytes: int
    eligible_largest_bytes: int
    eligible_usable_bytes: int
    releasable_bytes: int
    fits: bool
    served: Served | None
    """How the allocator's rules would serve it: from its cache, from the device as it is, or after a flush of the cache."""
    cause: Cause | None
    also: list[Cause]
    margins: list[Margin]
    helps: list[str]


def oom_request(snapshot: Snapshot, device: int) -> Request | None:
    """The newest oom entry of a device's history."""
    history = snapshot.histories.get(device, History())
    n = history.newest_oom()
    if n is None:
        return None
    free = history.device_free_bytes[n]
    frames = snapshot.frames_of(history.stacks[n])
    return Request(
        request_bytes=history.sizes_bytes[n],
        device=device,
        stream=max(history.streams[n], 0),
        pool=history.pools.get(n, DEFAULT_POOL),
        device_free_bytes=free if free != UNKNOWN else None,
        capturing=any("capture" in name or "use_mem_pool" in name for _, _, name in frames),
        index=n,
    )


def fit(snapshot: Snapshot, request: Request) -> Fit:
    """Try a request against a snapshot, in the allocator's own order, then name what stood in its way."""
    settings = settings_of(snapshot.settings)
    block = settings.block_bytes(request.request_bytes)
    segment = segment_bytes(block)
    wanted_class = "small" if block <= SMALL_BYTES else "large"
    every = pools(snapshot, request.device)
    name = f"{request.pool[0]}.{request.pool[1]}"
    eligible = [p for p in every if (p.pool, p.stream, p.size_class) == (name, request.stream, wanted_class)]
    limit, free = request.limit_bytes, request.device_free_bytes
    allowed = None if limit is None else max(limit - total(every, "reserved_bytes"), 0)
    rooms = [room for room in (free, allowed) if room is not None]
    short = max(segment - min(rooms, default=0), 0)
    served = _served(snapshot, request, settings)
    result = Fit(
        request=request,
        block_bytes=block,
        segment_bytes=segment,
        short_bytes=short,
        assumed_full=not rooms,
        eligible_free_bytes=total(eligible, "inactive_bytes"),
        eligible_largest_bytes=max((p.largest_free_block_bytes for p in eligible), default=0),
        eligible_usable_bytes=_largest_usable(snapshot, request, block, wanted_class),
        releasable_bytes=total(every, "releasable_bytes"),
        fits=served is not None,
        served=served,
        cause=None,
        also=[],
        margins=_margins(every, request, short, allowed is None or allowed >= segment),
        helps=[],
    )
    result.cause, result.also = _decide(every, request, result, limits_itself(snapshot))
    result.helps = [text for cause in (result.cause, *result.also) if cause for text in HELPS[cause]]
    return result


def _served(snapshot: Snapshot, request: Request, settings: Settings) -> Served | None:
    """How the allocator's own rules would serve a request: tried on the model, with what is free on the device."""
    if not adoptable(snapshot, request.device):
        return None
    given: list[str] = []
    allocator = Allocator(
        Device(request.device_free_bytes if request.device_free_bytes is not None else request.limit_bytes or 0),
        replace(settings, limit_bytes=request.limit_bytes),
        lambda action, *_: given.append(action) if action in ("segment_free", "segment_unmap") else None,
    )
    adopt(allocator, snapshot, request.device)
    if allocator.cached(request.request_bytes, request.stream, request.pool):
        return "cache"
    try:
        allocator.malloc(request.request_bytes, request.stream, request.pool)
    except OutOfMemory:
        return None
    return "flush" if given else "device"


def _largest_usable(snapshot: Snapshot, request: Request, block_bytes: int, size_class: str) -> int:
    """The largest free block that the allocator would hand to this request; max_split_size bars some."""
    limit = snapshot.settings.get("max_split_size", -1)
    bars = size_class == "large" and type(limit) is int and limit > 0
    best = 0
    for segment in snapshot.segments:
        key = (segment.device, segment.pool, segment.stream, segment.size_class)
        if key != (request.device, request.pool, request.stream, size_class):
            continue
        for block in segment.blocks:
            if block.state != "inactive" or block.size_bytes <= best:
                continue
            if bars and not segment.expandable and isinstance(limit, int):
                if block_bytes < limit <= block.size_bytes:
                    continue
                if block_bytes >= limit and block.size_bytes >= block_bytes + LARGE_SEGMENT_BYTES:
                    continue
            best = block.size_bytes
    return best


def _margins(every: list[Pool], request: Request, short: int, allowed: bool) -> list[Margin]:
    default = [p for p in every if not p.private]
    same = [p for p in default if p.stream == request.stream]
    other = [p for p in default if p.stream != request.stream]
    reserved = total(every, "reserved_bytes")
    own = request.own_process_bytes
    reclaims: list[tuple[Cause, int | None]] = [
        ("fragmentation", total(same, "split_bytes")),
        ("private_pools", total([p for p in every if p.private], "inactive_bytes")),
        ("other_streams", total(other, "inactive_bytes") + total(every, "pending_bytes")),
        ("non_torch", None if own is None else max(own - reserved - BASELINE_BYTES, 0)),
        ("other_process", request.others_bytes),
    ]
    return [
        Margin(
            cause=cause,
            reclaim_bytes=gain,
            sufficient=None if gain is None else 0 < short <= gain and (allowed or cause not in _OUTSIDE),
        )
        for cause, gain in reclaims
    ]


def limits_itself(snapshot: Snapshot) -> bool:
    """Whether PYTORCH_CUDA_ALLOC_CONF sets a memory fraction; of which total, no snapshot tells."""
    found = (_FRACTION.search(str(value)) for key, value in snapshot.settings.items() if key.endswith("ALLOC_CONF"))
    return any(float(match[1]) < 1 for match in found if match is not None)


def _decide(every: list[Pool], request: Request, found: Fit, limited: bool) -> tuple[Cause | None, list[Cause]]:
    """The cause and those that would have sufficed too, in the order in which the allocator would have met them."""
    free, limit = request.device_free_bytes, request.limit_bytes
    room = limit is not None if free is None else free >= found.segment_bytes
    reserved = total(every, "reserved_bytes")
    largest_first = sorted(found.margins, key=lambda margin: -(margin.reclaim_bytes or 0))  # ties: the margins' own order
    enough = [margin.cause for margin in largest_first if margin.sufficient]
    failed = request.index is not None
    reached = limited and failed if limit is None else reserved + found.segment_bytes > limit
    if room and reached and found.served in (None, "device"):
        return "limit", enough
    if not failed and found.fits:
        return None, []  # asked about, not failed
    if found.served == "cache":
        return "allocator_anomaly", []
    if found.served == "flush":
        return ("flush_skipped" if request.pool != DEFAULT_POOL or request.capturing else "allocator_anomaly"), []
    if found.served == "device" or room:
        return "driver_refusal", []
    if request.total_bytes is not None:
        outside = max((request.own_process_bytes or reserved) - reserved, 0) + (request.others_bytes or 0)
        could = request.total_bytes - outside
        if total(every, "allocated_bytes") >= FULL_RATIO * could:
            return "exhaustion", []
    return (enough[0], enough[1:]) if enough else ("exhaustion", [])
