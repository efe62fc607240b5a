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
from oomctl.schemas.narrow import Rows, integers, meanings, values

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
    histories = _parts(rows)
    streams = sorted(state["segment"].keys() | histories.keys())
    if not streams:
        raise OomctlError(f"no allocator snapshot in it ({name})", "import one: oomctl import snapshot.pickle -o FILE")
    for stream in streams:
        segments, blocks, frames, settings = (state[kind].get(stream, []) for kind in _STATE)
        snapshot, stack_ids = assembled(
            stream,
            segments=[(device, int(row[0], 16), row[1], int(row[2] or 0), *row[3:]) for device, *row in segments],
            blocks=[(device, int(row[0], 16), int(row[1], 16), *row[2:]) for device, *row in blocks],
            frames=[row[1:] for row in frames],
            settings=[(key, value) for _, section, key, value in settings if section == "allocator"],
        )
        numbers = {stack_id: number for number, stack_id in enumerate(stack_ids)}
        snapshot.histories = {device: _history(parts, numbers) for device, parts in histories.get(stream, {}).items()}
        yield snapshot


def _state(rows: Rows, kind: str) -> dict[str, list[tuple[Any, ...]]]:
    """(device, columns in their order) of a kind's rows, by stream."""
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for stream, device, columns in rows.of(kind, [f"{kind}.{name}" for name in _STATE[kind]]):
        found[stream] += ((device or 0, *row) for row in zip(*map(values, columns.values()), strict=True))
    return found


def _parts(rows: Rows) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """The parts of each stream's and device's history."""
    found: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for stream, device, columns in rows.of("alloc", ["ts", *(f"alloc.{name}" for name in _HISTORY)]):
        found[stream][device or 0].append(columns)
    return found


def _history(parts: list[dict[str, Any]], numbers: dict[str, int]) -> History:
    history = History()
    places = array("q")
    for part in parts:
        if part["alloc.pool_id"].null_count < len(part["alloc.pool_id"]):
            history.tells_pools = True
            pools = enumerate(meanings(part["alloc.pool_id"], pool_id, DEFAULT_POOL), len(history))
            history.pools |= {n: pool for n, pool in pools if pool != DEFAULT_POOL}
        history.actions += meanings(part["alloc.action"], str, "")
        history.addresses += array("q", meanings(part["alloc.address"], lambda told: int(told, 16), UNKNOWN))
        history.sizes_bytes += integers(part["alloc.size_bytes"], UNKNOWN)
        history.streams += array("q", meanings(part["alloc.cuda_stream"], int, UNKNOWN))
        history.times_us += integers(part["ts"], UNKNOWN)
        history.device_free_bytes += integers(part["alloc.device_free_bytes"], UNKNOWN)
        history.stacks += array("q", meanings(part["alloc.stack_id"], lambda told: numbers.get(told, NO_STACK), NO_STACK))
        places += integers(part["alloc.n"], UNKNOWN)
    return history if places == array("q", range(len(places))) else _in_order(history, places)


def _in_order(history: History, places: Sequence[int]) -> History:
    """The entries by their index: a file that joins several keeps only each kind in order."""
    order = sorted(range(len(places)), key=places.__getitem__)

    def column(name: str) -> Any:
        values = getattr(history, name)
        moved = [values[n] for n in order]
        return array("q", moved) if isinstance(values, array) else moved

    columns = {name: column(name) for name in ("actions", *_COLUMNS)}
    pools = {new: history.pools[old] for new, old in enumerate(order) if old in history.pools}
    return replace(history, **columns, pools=pools)
