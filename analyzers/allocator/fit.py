"""Why an allocation did not fit: each cause is undone on paper, and what that gives back is held against what was short."""

import re
from dataclasses import replace
from typing import Literal

import msgspec

from oomctl.analyzers.allocator.advice import Cause, advice
from oomctl.analyzers.allocator.eligible import SizeClass, captured_into, largest_usable, to_map
from oomctl.analyzers.allocator.model.allocator import Allocator, OutOfMemory
from oomctl.analyzers.allocator.model.device import Device
from oomctl.analyzers.allocator.model.settings import Settings, settings_of
from oomctl.analyzers.allocator.model.state import adopt, adoptable
from oomctl.analyzers.allocator.rules import SMALL_BYTES, segment_bytes
from oomctl.analyzers.allocator.state import Pool, pools, total
from oomctl.schemas.heap import DEFAULT_POOL, UNKNOWN, History, PoolId, Snapshot

Served = Literal["cache", "device", "flush"]
BASELINE_BYTES = 512 << 20
"""Of the non-PyTorch memory of a process: its context and libraries; real messages tell 0.1 to 0.7 GiB."""
FULL_RATIO = 0.95
"""Of what the process could have had: allocated to that share, reclaiming would not have been enough for long."""
_OUTSIDE: tuple[Cause, ...] = ("non_torch", "other_process")
"""What lies outside of PyTorch: less of it gives no room below a limit that counts PyTorch's own memory."""
_FRACTION = re.compile(r"per_process_memory_fraction\s*:\s*(\d*\.?\d+)")


class Request(msgspec.Struct, kw_only=True, frozen=True):
    """An allocation that failed, or that is asked about; what is None was not observed."""

    request_bytes: int
    device: int = 0
    stream: int = 0
    pool: PoolId = DEFAULT_POOL
    pool_told: bool = True
    """Whether that is known: before PyTorch 2.12 no entry tells its pool."""
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

    `short_bytes` is what a new segment, or the pages behind an expandable one, lacked of the device's free memory, or of
    what the process's own limit left: the larger of the two. An `oom` entry counts what was free after the flush of the
    cache; of a request that is asked about, what the flush would give is counted too. It is an upper bound where neither
    is known (`assumed_full`).
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
        pool_told=history.tells_pools,
        device_free_bytes=free if free != UNKNOWN else None,
        capturing=any("capture" in name or "use_mem_pool" in name for _, _, name in frames),
        index=n,
    )


def fit(snapshot: Snapshot, request: Request) -> Fit:
    """Try a request against a snapshot, in the allocator's own order, then name what stood in its way."""
    if request.capturing and not request.pool_told:
        request = msgspec.structs.replace(request, pool=captured_into(snapshot, request.device))
    settings = settings_of(snapshot.settings)
    block = settings.block_bytes(request.request_bytes)
    segment = segment_bytes(block)
    wanted_class: SizeClass = "small" if block <= SMALL_BYTES else "large"
    every = pools(snapshot, request.device)
    name = f"{request.pool[0]}.{request.pool[1]}"
    eligible = [p for p in every if (p.pool, p.stream, p.size_class) == (name, request.stream, wanted_class)]
    limit, free = request.limit_bytes, request.device_free_bytes
    allowed = None if limit is None else max(limit - total(every, "reserved_bytes"), 0)
    rooms = [room for room in (free, allowed) if room is not None]
    served = _served(snapshot, request, settings)
    flushed = total(every, "releasable_bytes") if request.index is None else 0
    needed = segment
    if settings.expandable and request.index is not None:
        needed = to_map(snapshot, request, block, wanted_class)
    short = 0 if request.index is None and served is not None else max(needed - min(rooms, default=0) - flushed, 0)
    largest = max((p.largest_free_block_bytes for p in eligible), default=0)
    usable = largest_usable(snapshot, request, block, wanted_class)
    result = Fit(
        request=request,
        block_bytes=block,
        segment_bytes=segment,
        short_bytes=short,
        assumed_full=not rooms,
        eligible_free_bytes=total(eligible, "inactive_bytes"),
        eligible_largest_bytes=largest,
        eligible_usable_bytes=usable,
        releasable_bytes=total(every, "releasable_bytes"),
        fits=served is not None,
        served=served,
        cause=None,
        also=[],
        margins=_margins(every, request, short, allowed is None or allowed >= segment),
        helps=[],
    )
    result.cause, result.also = _decide(every, request, result, limits_itself(snapshot))
    causes = [cause for cause in (result.cause, *result.also) if cause is not None]
    result.helps = advice(causes, settings, barred=bool(causes) and usable < block <= largest)
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


def _margins(every: list[Pool], request: Request, short: int, allowed: bool) -> list[Margin]:
    default = [p for p in every if not p.private]
    same = [p for p in default if p.stream == request.stream]
    other = [p for p in default if p.stream != request.stream]
    reserved = total(every, "reserved_bytes")
    own = request.own_process_bytes
    reclaims: list[tuple[Cause, int | None]] = [
        ("fragmentation", total(same, "split_bytes")),
        ("private_pools", total([p for p in every if p.private], "inactive_bytes")),
        # What the flush gives of other streams counts once: of a request that did not fail it is not short of it any more.
        (
            "other_streams",
            total(other, "inactive_bytes" if request.index is not None else "split_bytes") + total(every, "pending_bytes"),
        ),
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
