"""Snapshots out of a Parquet file that `oomctl import` wrote: only the columns of their own kinds are read."""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oomctl.analyzers.allocator.recorded import assembled, pool_id
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.heap import DEFAULT_POOL, NO_STACK, UNKNOWN, History, Snapshot
from oomctl.schemas.narrow import Rows, integers, meanings, numbers, values

_STATE = {
    "segment": ("address", "total_bytes", "cuda_stream", "size_class", "pool_id", "expandable", "stack_id"),
    "block": ("segment_address", "address", "size_bytes", "requested_bytes", "state", "stack_id"),
    "stack": ("stack_id", "file", "line", "function"),
    "manifest": ("section", "key", "value"),
}
_HISTORY = ("n", "action", "address", "size_bytes", "cuda_stream", "pool_id", "device_free_bytes", "stack_id")
_COLUMNS = ("addresses", "sizes_bytes", "streams", "times_us", "device_free_bytes", "stacks")


def imported(path: Path, name: str) -> Iterator[Snapshot]:
    """The snapshots of a file.

    Args:
        path: Where it lies.
        name: What to call it in errors.

    Raises:
        OomctlError: If it is none of ours, damaged, of a newer version, or without a snapshot.
    """
    rows = Rows(path, name)
    try:
        yield from _snapshots(rows, name)
    except (LookupError, TypeError, ValueError) as error:
        raise OomctlError(f"a snapshot's rows are damaged ({name}): {error}", "import it again") from error


def _snapshots(rows: Rows, name: str) -> Iterator[Snapshot]:
    state = {kind: _state(rows, kind) for kind in _STATE}
    found: dict[str, Snapshot] = {}
    stacks: dict[str, dict[str, int]] = {}
    for stream in sorted(set().union(*state.values())):
        segments, blocks, frames, settings = (state[kind].get(stream, []) for kind in _STATE)
        found[stream], stack_ids = assembled(
            stream,
            segments=[(device, int(row[0], 16), row[1], int(row[2] or 0), *row[3:]) for device, *row in segments],
            blocks=[(device, int(row[0], 16), int(row[1], 16), *row[2:]) for device, *row in blocks],
            frames=[row[1:] for row in frames],
            settings=[(key, value) for _, section, key, value in settings if section == "allocator"],
        )
        stacks[stream] = {stack_id: number for number, stack_id in enumerate(stack_ids)}
    places: dict[tuple[str, int], array[int]] = defaultdict(lambda: array("q"))
    # Each part is taken over before the next is read: what it held serves the next one.
    for stream, device, columns in rows.of("alloc", ["ts", *(f"alloc.{column}" for column in _HISTORY)]):
        snapshot = found.setdefault(stream, Snapshot(stream, [], {}, [], [], {}))
        _add(snapshot.histories.setdefault(device or 0, History()), columns, stacks.get(stream, {}))
        places[stream, device or 0] += integers(columns["alloc.n"], UNKNOWN)
    told = [snapshot for _, snapshot in sorted(found.items()) if snapshot.devices]
    if not told:
        raise OomctlError(f"no allocator snapshot in it ({name})", "import one: oomctl import snapshot.pickle -o FILE")
    for snapshot in told:
        for device, history in snapshot.histories.items():
            snapshot.histories[device] = _in_order(history, places[snapshot.name, device])
        yield snapshot


def _state(rows: Rows, kind: str) -> dict[str, list[tuple[Any, ...]]]:
    """(device, columns in their order) of a kind's rows, by stream."""
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for stream, device, columns in rows.of(kind, [f"{kind}.{name}" for name in _STATE[kind]]):
        found[stream] += ((device or 0, *row) for row in zip(*map(values, columns.values()), strict=True))
    return found


def _add(history: History, part: dict[str, Any], stacks: dict[str, int]) -> None:
    """Append entries, as columns of Arrow; `stacks` has the number of each stack by its name."""
    if part["alloc.pool_id"].null_count < len(part["alloc.pool_id"]):
        history.tells_pools = True
        pools = enumerate(meanings(part["alloc.pool_id"], pool_id, DEFAULT_POOL), len(history))
        history.pools |= {n: pool for n, pool in pools if pool != DEFAULT_POOL}
    history.actions += meanings(part["alloc.action"], str, "")
    history.addresses += numbers(part["alloc.address"], lambda told: int(told, 16), UNKNOWN)
    history.sizes_bytes += integers(part["alloc.size_bytes"], UNKNOWN)
    history.streams += numbers(part["alloc.cuda_stream"], int, UNKNOWN)
    history.times_us += integers(part["ts"], UNKNOWN)
    history.device_free_bytes += integers(part["alloc.device_free_bytes"], UNKNOWN)
    history.stacks += numbers(part["alloc.stack_id"], lambda told: stacks.get(told, NO_STACK), NO_STACK)


def _in_order(history: History, places: Sequence[int]) -> History:
    """The entries by their index: a file that joins several keeps only each kind in order."""
    # A sample: rows that were put in another order do not keep every 64th of them in its place.
    if places[::64] == array("q", range(0, len(places), 64)) and places[-1] == len(places) - 1:
        return history
    order = sorted(range(len(places)), key=places.__getitem__)

    def column(name: str) -> Any:
        values = getattr(history, name)
        moved = [values[n] for n in order]
        return array("q", moved) if isinstance(values, array) else moved

    columns = {name: column(name) for name in ("actions", *_COLUMNS)}
    pools = {new: history.pools[old] for new, old in enumerate(order) if old in history.pools}
    return replace(history, **columns, pools=pools)
