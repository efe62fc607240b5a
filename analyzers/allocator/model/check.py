"""The model against a recorded history: fed with its requests, does it do what the real allocator did?"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable

import msgspec

from oomctl.analyzers.allocator.model.allocator import Allocator, OutOfMemory
from oomctl.analyzers.allocator.model.blocks import Block
from oomctl.analyzers.allocator.model.settings import settings_of
from oomctl.analyzers.allocator.model.state import adopt, state
from oomctl.analyzers.allocator.rewind import rewind
from oomctl.schemas.heap import DEFAULT_POOL, History, PoolId, Segment, Snapshot

NOWHERE = 1 << 60
_SEGMENTS = frozenset({"segment_alloc", "segment_map", "segment_free", "segment_unmap"})
_GIVES = frozenset({"segment_alloc", "segment_map"})


class Check(msgspec.Struct, kw_only=True):
    """How far the model, fed with a history's requests, did what the history says: the same addresses and segments."""

    events: int
    reproduced: int
    """Events before the first at which the two part; all of them where they never do."""
    parted_at: int | None
    why: str


class Differs(Exception):
    """The model and the history part."""


class Scripted:
    """A driver that answers as the history tells: what comes next of segments is what the real one did."""

    def __init__(self) -> None:
        self.script: deque[tuple[str, int, int]] = deque()

    def allocate(self, size: int) -> int | None:
        """The address that the history tells; None where something was given back first, or nothing came."""
        if self.script and self.script[0][0] == "segment_alloc":
            _, address, told = self.script.popleft()
            if told != size:
                raise Differs(f"a segment of {size} bytes, where the history has one of {told}")
            return address
        return None

    def map(self, address: int, size: int, page: int) -> bool:
        """The same for pages."""
        if self.script and self.script[0][0] == "segment_map":
            _, told_address, told = self.script.popleft()
            if (told_address, told) != (address, size):
                raise Differs(f"pages of {size} bytes at {address:#x}, where the history has {told} at {told_address:#x}")
            return True
        return False

    def reserve(self, size: int) -> int:
        """A new range begins where the next pages are mapped."""
        return next((address for action, address, _ in self.script if action == "segment_map"), NOWHERE)

    def give_back(self, address: int, size: int) -> None:
        """Must be what the history gives back, in any order of one flush."""
        for entry in self.script:
            if entry[0] in _GIVES:
                break
            if entry[1:] == (address, size):
                self.script.remove(entry)
                return
        raise Differs(f"{size} bytes at {address:#x} given back, which the history keeps")


def check(
    snapshot: Snapshot, device: int, limit_bytes: int | None = None, totals: list[tuple[int, int]] | None = None
) -> Check:
    """Replay a device's history from its initial state, under its own settings, up to the snapshot's state.

    Args:
        snapshot: With the device's history.
        device: Which.
        limit_bytes: Of the process, where it set one: no snapshot tells it.
        totals: Gets (reserved, active) bytes after each event; segments that come with a request count from it on.
    """
    history = snapshot.histories[device]
    driver = Scripted()
    allocator = Allocator(driver, settings_of(snapshot.settings, limit_bytes))
    start = rewind(snapshot, device, -1)
    adopt(allocator, start, device)
    pools = Pools(snapshot, device)
    n = 0
    try:
        for n in range(len(history)):
            _follow(allocator, driver, history, n, pools)
            if totals is not None:
                totals.append((allocator.reserved_bytes, allocator.active_bytes))
        if driver.script:
            allocator.flush()  # torch.cuda.empty_cache() at the end
        if driver.script:
            raise Differs("the history goes on with segments that the model does not ask for")
        if _layout(state(allocator, device)) != _layout(s for s in snapshot.segments if s.device == device):
            raise Differs("the model ends in another state than the snapshot")
    except (Differs, OutOfMemory, KeyError) as error:
        why = str(error) if isinstance(error, Differs) else f"{type(error).__name__}: {error}"
        return Check(events=len(history), reproduced=n, parted_at=n, why=why)
    return Check(events=len(history), reproduced=len(history), parted_at=None, why="")


def _follow(allocator: Allocator, driver: Scripted, history: History, n: int, pools: "Pools") -> None:
    action, address, size = history.actions[n], history.addresses[n], history.sizes_bytes[n]
    if action in _SEGMENTS:
        driver.script.append((action, address, size))
        return
    if action in ("alloc", "oom"):
        stream, pool = max(history.streams[n], 0), pools.of(history, n)
        if driver.script and driver.script[0][0] not in _GIVES and allocator.cached(size, stream, pool):
            allocator.flush()  # an empty_cache() before it: the request alone would have given nothing back
        try:
            block: Block | None = allocator.malloc(size, stream, pool)
        except OutOfMemory:
            block = None
        told = address if action == "alloc" else None
        got = block.address if block is not None else None
        if told != got:
            raise Differs(f"{size} bytes at {_hex(got)}, where the history has {_hex(told)}")
    elif driver.script and action in ("free_requested", "free_completed", "free"):
        allocator.flush()
    if action in ("alloc", "oom", "free_requested", "free_completed", "free") and driver.script:
        raise Differs(f"{driver.script[0][0]} of {driver.script[0][2]} bytes, which the model does not do")
    if action == "free_requested":
        block = allocator.live[address]
        block.allocated, block.pending = False, True
    elif action in ("free_completed", "free"):
        allocator.free(address)


class Pools:
    """Which pool a request was for: as the entry tells, else that of the segment that holds its address at the end."""

    def __init__(self, snapshot: Snapshot, device: int) -> None:
        private = [s for s in snapshot.segments if s.device == device and s.pool != DEFAULT_POOL]
        self._ranges = sorted((s.address, s.address + s.total_bytes, s.pool) for s in private)
        self._starts = [start for start, _, _ in self._ranges]

    def of(self, history: History, n: int) -> PoolId:
        """The pool of an entry."""
        if history.tells_pools:
            return history.pools.get(n, DEFAULT_POOL)
        place = bisect_right(self._starts, history.addresses[n]) - 1
        if place < 0:
            return DEFAULT_POOL
        _, end, pool = self._ranges[place]
        return pool if history.addresses[n] < end else DEFAULT_POOL


def _layout(segments: Iterable[Segment]) -> list[tuple[int, int, bool]]:
    blocks = (block for segment in segments for block in segment.blocks)
    return sorted((block.address, block.size_bytes, block.state == "inactive") for block in blocks)


def _hex(address: int | None) -> str:
    return "nowhere" if address is None else hex(address)
