"""Snapshots out of a Parquet file: their state by way of the event table, their histories straight out of its columns."""

from array import array
from collections.abc import Iterator
from operator import le
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomctl.analyzers.allocator.recorded import pool_id, recorded_state
from oomctl.schemas import storage
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.heap import DEFAULT_POOL, NO_STACK, UNKNOWN, History, Snapshot

if TYPE_CHECKING:
    import duckdb

_STATE = "WHERE kind IN ('segment', 'block', 'stack', 'manifest', 'allocator')"
_STREAMS = """
SELECT stream, max(rank) FROM allocator WHERE source = 'snapshot' GROUP BY stream ORDER BY stream
"""
_HISTORY = f"""
SELECT
    coalesce(device_id, 0) AS device_id, alloc.n AS n, alloc.action AS action,
    coalesce(CAST(alloc.address AS BIGINT), {UNKNOWN}) AS addresses, coalesce(alloc.size_bytes, {UNKNOWN}) AS sizes_bytes,
    coalesce(CAST(alloc.cuda_stream AS BIGINT), {UNKNOWN}) AS streams, coalesce(epoch_us(ts), {UNKNOWN}) AS times_us,
    coalesce(alloc.device_free_bytes, {UNKNOWN}) AS device_free_bytes, alloc.stack_id AS stack_id, alloc.pool_id AS pool_id
FROM read_parquet($1) WHERE kind = 'alloc' AND stream = $2
"""
_INTEGERS = ("addresses", "sizes_bytes", "streams", "times_us", "device_free_bytes")


def imported(path: Path, name: str) -> Iterator[Snapshot]:
    """The snapshots of a file that `oomctl import` wrote.

    Args:
        path: Where it lies.
        name: What to call it in errors.

    Raises:
        OomctlError: If it is none, of a newer version, or without a snapshot.
    """
    connection = storage.connect()
    try:
        storage.load_parquet(connection, path, name, where=_STATE)
        streams = connection.execute(_STREAMS).fetchall()
        if not streams:
            raise OomctlError(f"no allocator snapshot in it ({name})", "import one: oomctl import snapshot.pickle -o FILE")
        for stream, _ in streams:
            snapshot, stack_ids = recorded_state(connection, stream)
            numbers = {stack_id: number for number, stack_id in enumerate(stack_ids)}
            snapshot.histories = _histories(connection, path, stream, numbers)
            yield snapshot
    finally:
        connection.close()


def _histories(
    connection: "duckdb.DuckDBPyConnection", path: Path, stream: str, numbers: dict[str, int]
) -> dict[int, History]:
    table = connection.sql(_HISTORY, params=[str(path), stream]).to_arrow_table()
    devices, places = _integers(table, "device_id"), _integers(table, "n")
    if not (all(map(le, devices, devices[1:])) and (len(set(devices)) > 1 or all(map(le, places, places[1:])))):
        table = connection.sql(f"{_HISTORY} ORDER BY device_id, n", params=[str(path), stream]).to_arrow_table()
        devices = _integers(table, "device_id")
    found: dict[int, History] = {}
    at = 0
    while at < len(devices):
        device = devices[at]
        count = devices.count(device)
        found[device] = _history(table.slice(at, count), numbers)
        at += count
    return found


def _history(table: Any, numbers: dict[str, int]) -> History:
    history = History()
    for name in _INTEGERS:
        setattr(history, name, _integers(table, name))
    history.actions = _texts(table, "action", str)
    history.stacks = array("q", _texts(table, "stack_id", lambda told: numbers.get(told, NO_STACK)))
    if table["pool_id"].null_count < len(table):
        history.tells_pools = True
        pools = _texts(table, "pool_id", pool_id)
        history.pools = {n: pool for n, pool in enumerate(pools) if pool != DEFAULT_POOL}
    return history


def _integers(table: Any, name: str) -> "array[int]":
    values = array("q")
    for chunk in table[name].chunks:
        values.frombytes(memoryview(chunk.buffers()[1])[8 * chunk.offset : 8 * (chunk.offset + len(chunk))])
    return values


def _texts(table: Any, name: str, meaning: Any) -> list[Any]:
    """A column of few different texts, each turned into what it means once."""
    values: list[Any] = []
    for chunk in table[name].dictionary_encode("encode").chunks:
        meanings = [meaning(told) for told in chunk.dictionary.to_pylist()]
        codes, indices = array("i"), chunk.indices
        codes.frombytes(memoryview(indices.buffers()[1])[4 * indices.offset : 4 * (indices.offset + len(indices))])
        values += map(meanings.__getitem__, codes)
    return values
