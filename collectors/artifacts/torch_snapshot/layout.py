"""The layouts of a snapshot from PyTorch 1.x to after 2.13, checked and put into columns.

Format: torch/csrc/cuda/memory_snapshot.cpp, Module.cpp before it. What a version lacks is derived or left unknown; keys
that are not known here are not looked at.
"""

from array import array
from itertools import repeat
from operator import itemgetter
from typing import Any, Literal

from oomctl.collectors.artifacts.torch_snapshot.load import HINT
from oomctl.collectors.artifacts.torch_snapshot.sound import bound, problems, refuse_repeated
from oomctl.collectors.artifacts.torch_snapshot.stacks import Stacks
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.heap import DEFAULT_POOL, UNKNOWN, Block, History, PoolId, Segment, Snapshot, State
from oomctl.schemas.rows import LAST_US

MAX_INTEGER = 2**63 - 1
SPARE_VISITS = 1 << 20
PART = 4096
"""Entries that are read at once: so few stay in the processor's cache from one column to the next."""
_STATES: dict[str, State] = {
    "active_allocated": "active_allocated",
    "active_pending_free": "active_pending_free",
    "active_awaiting_free": "active_pending_free",
    "inactive": "inactive",
}


def read_document(document: Any, name: str, size_bytes: int) -> Snapshot:
    """Columns of a loaded document.

    Args:
        document: Plain containers, of anybody's making.
        name: Of the file.
        size_bytes: Of the file, unpacked: what is visited more often than it has bytes was repeated by reference.

    Raises:
        OomctlError: If it is no snapshot.
    """
    try:
        return _Reader(size_bytes).read(document, name)
    except ValueError as error:
        raise OomctlError(f"not a snapshot: {error} ({name})", HINT) from None
    except RecursionError:  # containers in frames, which are compared
        raise OomctlError(f"nested too deep for a snapshot ({name})", HINT) from None


class _Reader:
    def __init__(self, size_bytes: int) -> None:
        self._visits_left = size_bytes + SPARE_VISITS
        self._stacks = Stacks(self._spend)

    def _spend(self, visits: int) -> None:
        self._visits_left -= visits
        if self._visits_left < 0:
            raise ValueError("it repeats its parts more often than its size allows")

    def read(self, document: Any, name: str) -> Snapshot:
        if type(document) is list:  # PyTorch 1.x: torch.cuda.memory_snapshot()
            document = {"segments": document}
        if type(document) is not dict or type(document.get("segments")) is not list:
            raise ValueError("it has no list of segments")
        self._spend(len(document["segments"]))
        refuse_repeated(document["segments"], "a segment")
        segments = [self._segment(_dict(entry, "a segment")) for entry in document["segments"]]
        bound(block.size_bytes for segment in segments for block in segment.blocks)
        bound(segment.total_bytes for segment in segments)
        settings = document.get("allocator_settings")
        settings = settings if type(settings) is dict else {}
        traces = document.get("device_traces") or []
        if type(traces) is not list:
            raise ValueError("device_traces is not a list")
        histories = {}
        self._spend(len(traces))
        told = [id(entries) for entries in traces if entries]
        if len(set(told)) < len(told):
            raise ValueError("it repeats the trace of a device")
        for device, entries in enumerate(traces):
            if type(entries) is not list:
                raise ValueError("a device's trace is not a list")
            if entries:
                histories[device] = self._history(entries)
        divisions = settings.get("roundup_power2_divisions")
        each = {f"roundup_power2_divisions.{key}": value for key, value in _pairs(divisions)}
        scalars = {
            key[:100]: value if type(value) is not str else value[:1000]
            for key, value in (*_pairs(settings), *each.items())
            if type(value) in (str, int, float, bool)
        }
        return Snapshot(name, segments, histories, self._stacks.stacks, self._stacks.frames, scalars, problems(segments))

    def _segment(self, entry: dict[str, Any]) -> Segment:
        blocks = entry.get("blocks")
        if type(blocks) is not list:
            raise ValueError("a segment has no list of blocks")
        self._spend(len(blocks))
        refuse_repeated(blocks, "a block")
        address = _integer(entry, "address")
        at = address
        read = []
        for block in blocks:
            made = self._block(_dict(block, "a block"), at)
            at = made.address + made.size_bytes
            read.append(made)
        total = _integer(entry, "total_size")
        kind: Literal["small", "large"] = "small" if entry.get("segment_type") == "small" else "large"
        return Segment(
            device=_integer(entry, "device", 0),
            address=address,
            total_bytes=total,
            stream=_stream(entry),
            size_class=kind,
            pool=_pool(entry.get("segment_pool_id")) or DEFAULT_POOL,
            expandable=entry.get("is_expandable") is True,
            stack=self._stacks.intern(entry.get("frames")),
            blocks=tuple(read),
        )

    def _block(self, entry: dict[str, Any], at: int) -> Block:
        state = _STATES.get(str(entry.get("state")))
        if state is None:
            raise ValueError(f"a block's state is {str(entry.get('state'))[:40]!r}")
        frames, requested = entry.get("frames"), entry.get("requested_size")
        past = entry.get("history")  # PyTorch 1.11 to 2.0: the block's present owner stands first
        if type(past) is list and past and type(past[0]) is dict:
            frames = past[0].get("frames") if frames is None else frames
            requested = past[0].get("real_size") if requested is None else requested
        return Block(
            address=_integer(entry, "address", at),
            size_bytes=_integer(entry, "size"),
            requested_bytes=requested if type(requested) is int and 0 <= requested <= MAX_INTEGER else None,
            state=state,
            stack=self._stacks.intern(frames),
        )

    def _history(self, entries: list[Any]) -> History:
        """The columns of a trace, emptied meanwhile: entries and columns never stand together in whole."""
        self._spend(len(entries))
        history = History()
        for start in range(0, len(entries), PART):
            part = entries[start : start + PART]
            entries[start : start + PART] = repeat(None, len(part))
            self._part(history, part)
        bound(history.sizes_bytes)
        return history

    def _part(self, history: History, entries: list[Any]) -> None:
        if set(map(type, entries)) != {dict}:
            raise ValueError("an entry of a trace is not a dictionary")
        actions = [entry.get("action") for entry in entries]
        if set(map(type, actions)) != {str}:
            raise ValueError("an entry of a trace has no action")
        pools = list(map(dict.get, entries, repeat("pool_id")))
        if any(pools):
            history.tells_pools = True
            for n, value in enumerate(pools, len(history)):
                if value and (pool := _pool(value)) not in (None, DEFAULT_POOL):
                    history.pools[n] = pool
        history.actions += actions
        history.addresses += _column(entries, "addr")
        history.sizes_bytes += _column(entries, "size")
        history.streams += _streams(entries)
        history.times_us += _column(entries, "time_us", LAST_US)
        history.device_free_bytes += _free_at_ooms(entries, actions)
        history.stacks += self._stacks.intern_all(entries)


def _free_at_ooms(entries: list[dict[str, Any]], actions: list[str]) -> "array[int]":
    values = array("q", [UNKNOWN]) * len(entries)
    if "oom" in actions:
        for n, action in enumerate(actions):
            if action == "oom":
                (values[n],) = _column([entries[n]], "device_free")
    return values


def _column(entries: list[dict[str, Any]], key: str, last: int = MAX_INTEGER) -> "array[int]":
    """Integers of a key; what is absent, None or beyond the last that means something is UNKNOWN."""
    try:
        told: list[Any] = list(map(itemgetter(key), entries))
        values = array("q", told)  # from a list, not from an iterator, which takes four times as long
        if min(told) >= UNKNOWN and (last == MAX_INTEGER or max(told) <= last):
            return values
    except (KeyError, TypeError, OverflowError):
        told = [UNKNOWN if (value := entry.get(key)) is None else value for entry in entries]
        if not set(map(type, told)) <= {int}:
            raise ValueError(f"{key} of an entry is not an integer") from None
    return array("q", [value if UNKNOWN <= value <= last else UNKNOWN for value in told])


def _streams(entries: list[dict[str, Any]]) -> "array[int]":
    """A stream is the value of a pointer: one with its highest bit set was written as a negative number."""
    try:
        told = array("q", list(map(itemgetter("stream"), entries)))
        if min(told) >= UNKNOWN:
            return told
    except (KeyError, TypeError, OverflowError):
        return _column(entries, "stream")
    return array("q", [value if value == UNKNOWN else value & MAX_INTEGER for value in told])


def _stream(entry: dict[str, Any]) -> int:
    value = entry.get("stream", 0)
    if type(value) is int and -(2**63) <= value < 0:
        return value & MAX_INTEGER
    return _integer(entry, "stream", 0)


def _integer(entry: dict[str, Any], key: str, default: int | None = None) -> int:
    value = entry.get(key, default)
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise ValueError(f"{key} is not a size or an address")
    return value


def _dict(entry: Any, what: str) -> dict[str, Any]:
    if type(entry) is not dict:
        raise ValueError(f"{what} is not a dictionary")
    return entry


def _pairs(value: Any) -> list[tuple[str, Any]]:
    return [pair for pair in list(value.items())[:200] if type(pair[0]) is str] if type(value) is dict else []


def _pool(value: Any) -> PoolId | None:
    if type(value) in (tuple, list) and len(value) == 2 and all(type(part) is int and 0 <= part < 2**63 for part in value):
        return (value[0], value[1])
    return None
