"""How long blocks lived, by the stack that allocated them: what stays from a step to the next, and what never goes."""

from collections import defaultdict
from statistics import median_low

import msgspec

from oomctl.analyzers.allocator.components import component, words
from oomctl.schemas.heap import UNKNOWN, Snapshot


class Lifetime(msgspec.Struct, kw_only=True):
    """The allocations of one stack within the history; sizes as requested."""

    name: str
    component: str
    allocations: int
    allocated_bytes: int
    """All of them together, also those that were freed."""
    live: int
    live_bytes: int
    median_events: int | None
    """Between an allocation and its free, of those that were freed."""
    longest_events: int | None
    median_us: int | None
    """The same in time; None before PyTorch 2.2."""


class _Tally:
    __slots__ = ("count", "events", "live", "live_bytes", "times", "total")

    def __init__(self) -> None:
        self.count = self.total = self.live = self.live_bytes = 0
        self.events: list[int] = []
        self.times: list[int] = []


def lifetimes(snapshot: Snapshot, device: int) -> list[Lifetime]:
    """By stack, what holds most at the end first; blocks older than the history are not seen."""
    history = snapshot.histories[device]
    tallies: dict[int, _Tally] = defaultdict(_Tally)
    born: dict[int, int] = {}
    for n, action in enumerate(history.actions):
        if action == "alloc":
            born[history.addresses[n]] = n
            tally = tallies[history.stacks[n]]
            tally.count += 1
            tally.total += history.sizes_bytes[n]
        elif action in ("free_completed", "free"):
            start = born.pop(history.addresses[n], None)
            if start is not None:
                tally = tallies[history.stacks[start]]
                tally.events.append(n - start)
                if UNKNOWN not in (history.times_us[start], history.times_us[n]):
                    tally.times.append(history.times_us[n] - history.times_us[start])
    for start in born.values():
        tally = tallies[history.stacks[start]]
        tally.live += 1
        tally.live_bytes += history.sizes_bytes[start]
    found = [_told(snapshot, stack, tally) for stack, tally in tallies.items()]
    return sorted(found, key=lambda one: (-one.live_bytes, -one.allocated_bytes, one.name))


def _told(snapshot: Snapshot, stack: int, tally: _Tally) -> Lifetime:
    frames = snapshot.frames_of(stack)
    return Lifetime(
        name=words(frames),
        component=component(frames),
        allocations=tally.count,
        allocated_bytes=tally.total,
        live=tally.live,
        live_bytes=tally.live_bytes,
        median_events=median_low(tally.events) if tally.events else None,
        longest_events=max(tally.events, default=None),
        median_us=median_low(tally.times) if tally.times else None,
    )
