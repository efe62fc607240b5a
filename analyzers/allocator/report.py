"""What `oomctl snapshot` tells of one device of one snapshot."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from oomctl.analyzers.allocator.advice import tried as on_the_model
from oomctl.analyzers.allocator.components import component, words
from oomctl.analyzers.allocator.fit import Fit, Request, fit, oom_request
from oomctl.analyzers.allocator.rewind import changed, rewind
from oomctl.analyzers.allocator.state import Pool, pools, total
from oomctl.analyzers.allocator.timeline import Holder, Timeline, holders_at_end, replay
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.heap import UNKNOWN, History, Snapshot

SCHEMA = "oomctl.snapshot/0"
MAX_HOLDERS = 50
SUMS = ("reserved", "allocated", "pending", "inactive", "rounding", "releasable", "split")
Grouping = Literal["stack", "component", "pool", "rank"]


class Share(msgspec.Struct, kw_only=True):
    """Live memory of one stack, component or pool."""

    name: str
    component: str | None = None
    bytes: int
    blocks: int
    frames: list[str] = []


class Moment(msgspec.Struct, kw_only=True):
    """An instant of the history, -1 before its first event, or its end (index None).

    Bytes are the timeline's; of the instant that was asked about, those of its blocks, with their unsplit rests.
    """

    what: str
    index: int | None
    allocated_bytes: int
    reserved_bytes: int
    time_us: int | None = None


class Report(msgspec.Struct, kw_only=True):
    """One device: bytes are the allocator's own, rounded; active memory of pending blocks is `pending_bytes`."""

    file: str
    device: int
    rank: int | None
    reserved_bytes: int
    allocated_bytes: int
    pending_bytes: int
    inactive_bytes: int
    rounding_bytes: int
    releasable_bytes: int
    split_bytes: int
    private_inactive_bytes: int
    events: int
    peak: Moment | None
    at: Moment
    grouping: Grouping
    holders: list[Share]
    pools: list[Pool]
    fit: Fit | None
    notes: list[str]


def report(
    snapshot: Snapshot,
    device: int,
    at: str | None,
    by: Grouping,
    request: Request | None,
    rank: int | None = None,
    limit_bytes: int | None = None,
) -> Report:
    """Everything about a device.

    Args:
        snapshot: As read.
        device: Which.
        at: peak, oom, an index of the history, or None for the snapshot's own instant.
        by: What holders are summed by.
        request: An allocation to try; None takes the snapshot's newest oom entry, if that is the device's.
        rank: Of the file, where known.
        limit_bytes: What the process allowed itself, where known; no snapshot tells it.

    Raises:
        OomctlError: If `at` names no instant of the history.
    """
    failed = oom_request(snapshot, device)
    timeline = replay(snapshot, device)
    history = snapshot.histories.get(device)
    if history is None and at is not None:
        raise OomctlError(f"no history on device {device} ({snapshot.name})", "leave --at out", ExitCode.USAGE)
    moment = peak = None
    seen = snapshot
    if timeline is not None and history is not None:
        peak = _moment("peak", history, timeline, timeline.peak)
        if at is not None:
            index = _index(at, timeline.peak, failed, len(history), snapshot.name)
            moment = _moment(at, history, timeline, index)
            seen = rewind(snapshot, device, index)
            moment.allocated_bytes = sum(b.size_bytes for s in seen.segments for b in s.blocks if b.state != "inactive")
            if index == peak.index:
                peak.allocated_bytes = moment.allocated_bytes
    found = pools(seen, device)
    tried = None
    if request is not None:
        tried = fit(seen, replace(request, limit_bytes=limit_bytes))
    elif failed is not None and failed.index is not None and history is not None:
        then = rewind(snapshot, device, failed.index) if changed(history, failed.index) else snapshot
        tried = fit(then, replace(failed, limit_bytes=limit_bytes))
        tried.helps = on_the_model(tried.helps, snapshot, device, limit_bytes)
    sums = {name: total(found, f"{name}_bytes") for name in SUMS}
    return Report(
        file=snapshot.name,
        device=device,
        rank=rank,
        **{f"{name}_bytes": amount for name, amount in sums.items()},
        private_inactive_bytes=total([pool for pool in found if pool.private], "inactive_bytes"),
        events=len(history) if history is not None else 0,
        peak=peak,
        at=moment
        or Moment(
            what="snapshot",
            index=None,
            allocated_bytes=sums["allocated"] + sums["pending"],
            reserved_bytes=sums["reserved"],
        ),
        grouping=by,
        holders=_shares(seen, holders_at_end(seen, device), found, by)[:MAX_HOLDERS],
        pools=found,
        fit=tried,
        notes=_notes(snapshot, found, tried),
    )


def _moment(what: str, history: History, timeline: Timeline, n: int) -> Moment:
    """After an event; -1 is before the first."""
    time = history.times_us[n] if n >= 0 else UNKNOWN
    allocated, reserved = timeline.at(n)
    return Moment(
        what=what,
        index=n,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        time_us=time if time != UNKNOWN else None,
    )


def instant(snapshot: Snapshot, device: int, at: str) -> int:
    """Index of the event that `peak`, `oom` or a number names.

    Raises:
        OomctlError: If it names none.
    """
    timeline = replay(snapshot, device)
    if timeline is None:
        raise OomctlError(f"no history on device {device} ({snapshot.name})", "leave --at out", ExitCode.USAGE)
    failed = oom_request(snapshot, device)
    return _index(at, timeline.peak, failed, len(snapshot.histories[device]), snapshot.name)


def _index(at: str, peak: int, failed: Request | None, length: int, name: str) -> int:
    if at == "peak":
        return peak
    if at == "oom":
        if failed is None or failed.index is None:
            raise OomctlError(f"no oom entry in the history ({name})", "use --at peak, or leave it out", ExitCode.USAGE)
        return failed.index
    if at.isdecimal() and len(at) < 12 and int(at) < length:
        return int(at)
    raise OomctlError(f"--at {at[:40]!r} names no instant", f"peak, oom, or 0 to {length - 1}", ExitCode.USAGE)


def _shares(snapshot: Snapshot, live: list[Holder], found: list[Pool], by: Grouping) -> list[Share]:
    if by == "pool":
        return [
            Share(
                name=f"pool {p.pool} stream {p.stream} {p.size_class}",
                bytes=p.allocated_bytes + p.pending_bytes,
                blocks=p.blocks,
            )
            for p in found
        ]
    if by == "rank":
        return [Share(name=snapshot.name, bytes=sum(h.bytes for h in live), blocks=sum(h.blocks for h in live))]
    shares = []
    for holder in live:
        frames = snapshot.frames_of(holder.stack)
        told = [f"{function} ({file}:{line})" for file, line, function in frames[:40]]
        shares.append(
            Share(name=words(frames), component=component(frames), bytes=holder.bytes, blocks=holder.blocks, frames=told)
        )
    if by == "stack":
        return shares
    summed: dict[str, Share] = {}
    for share in shares:
        kind = share.component or ""
        if kind in summed:
            summed[kind].bytes += share.bytes
            summed[kind].blocks += share.blocks
        else:
            summed[kind] = Share(name=kind, component=kind, bytes=share.bytes, blocks=share.blocks)
    return sorted(summed.values(), key=lambda share: -share.bytes)


def _notes(snapshot: Snapshot, found: list[Pool], tried: Fit | None) -> list[str]:
    notes = list(snapshot.problems)
    if snapshot.settings.get("trace_alloc_overflowed") is True:
        notes.append("the history lost its oldest events: a peak before them is not seen")
    if tried is None and found:
        largest = max(pool.largest_free_block_bytes for pool in found)
        notes.append(
            f"no oom entry in the history: nothing here says that an allocation failed; the largest free "
            f"block has {largest:,} bytes; try a size with `oomctl snapshot fit FILE --request SIZE`"
        )
    return notes
