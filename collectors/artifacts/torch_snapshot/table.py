"""A snapshot as rows of the event table: what its stacks are, what happened, what failed, and the state at its end.

Their order within the stream: settings, stacks, each device's history with the failed allocation behind it, then the
segments with their blocks, and the counters that they add up to.
"""

from array import array
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from oomctl.collectors.artifacts.torch_snapshot.failure import failure
from oomctl.schemas import ddl, storage
from oomctl.schemas.events import KINDS
from oomctl.schemas.heap import DEFAULT_POOL, NO_STACK, UNKNOWN, History, PoolId, Segment, Snapshot
from oomctl.schemas.rows import Row, make_row

if TYPE_CHECKING:
    import duckdb

_ALLOC = f"""(
    SELECT
        make_timestamp(nullif(time_us, {UNKNOWN})) AS ts,
        CASE WHEN time_us = {UNKNOWN} THEN 'none' ELSE 'exact' END AS ts_quality,
        $stream AS stream, $first::BIGINT + n AS seq, $worker AS worker, '1' AS incarnation, $rank::BIGINT AS rank,
        $device::BIGINT AS device_id, 'snapshot' AS source, 'measured' AS quality,
        struct_pack(
            snapshot_id := $stream, n := n, action := action, address := CASE WHEN addr >= 0 THEN printf('0x%x', addr) END,
            size_bytes := nullif(size_bytes, {UNKNOWN}), cuda_stream := nullif(cuda_stream, {UNKNOWN})::VARCHAR,
            pool_id := pool_id, device_free_bytes := nullif(device_free_bytes, {UNKNOWN}),
            stack_id := CASE WHEN stack <> {NO_STACK} THEN 's' || stack END
        ) AS alloc
    FROM oomctl_history
)"""


def load_events(connection: "duckdb.DuckDBPyConnection", snapshot: Snapshot, rank: int | None) -> int:
    """Append a snapshot's rows to the event table.

    A history goes in by columns: as rows through JSON (decision 0003) a million events would take longer than all else.

    Args:
        connection: From `storage.connect`.
        snapshot: As read; its name is the stream.
        rank: Of the process, where known.

    Returns:
        How many rows were added.
    """
    common = {
        "stream": snapshot.name, "worker": snapshot.name, "incarnation": "1", "rank": rank, "source": "snapshot",
        "quality": "measured", "ts_quality": "none",
    }  # fmt: skip
    seqs = count(1)
    rows = storage.load_rows(connection, _described(snapshot, common, seqs))
    for device, history in snapshot.histories.items():
        first = next(seqs)
        _load_history(connection, history, first, {**common, "device": device})
        seqs = count(first + len(history))
        rows += len(history)
    return rows + storage.load_rows(connection, _state(snapshot, common, seqs))


def _described(snapshot: Snapshot, common: dict[str, Any], seqs: Iterator[int]) -> Iterator[Row]:
    for key, value in snapshot.settings.items():
        fields: dict[str, Any] = {"section": "allocator", "key": key, "value": str(value)}
        yield make_row("manifest", fields, {**common, "seq": next(seqs)})
    for number, frames in enumerate(snapshot.stacks):
        for depth, index in enumerate(reversed(frames)):
            file, line, function = snapshot.frames[index]
            fields = {"stack_id": f"s{number}", "depth": depth, "file": file, "line": line, "function": function}
            yield make_row("stack", fields, {**common, "seq": next(seqs)})


def _load_history(
    connection: "duckdb.DuckDBPyConnection", history: History, first_seq: int, common: dict[str, Any]
) -> None:
    import pyarrow as pa

    length = len(history)
    told = range(length) if history.tells_pools else ()
    pools = [_pool_name(history.pools.get(n, DEFAULT_POOL)) for n in told]
    table = pa.table(
        {
            "n": _column(array("q", range(length))),
            "action": pa.array(history.actions, pa.string()),
            "addr": _column(history.addresses),
            "size_bytes": _column(history.sizes_bytes),
            "cuda_stream": _column(history.streams),
            "time_us": _column(history.times_us),
            "device_free_bytes": _column(history.device_free_bytes),
            "stack": _column(history.stacks),
            "pool_id": pa.array(pools, pa.string()) if pools else pa.nulls(length, pa.string()),
        }
    )
    bound = {"first": first_seq} | {name: common[name] for name in ("stream", "worker", "rank", "device")}
    for start in range(0, length, storage.CHUNK_ROWS):
        connection.register("oomctl_history", table.slice(start, storage.CHUNK_ROWS))
        connection.execute(ddl.insert(KINDS["alloc"], _ALLOC), bound)
        connection.unregister("oomctl_history")
        if length > storage.CHUNK_ROWS:
            connection.execute("CHECKPOINT")  # compresses what was added


def _column(values: "array[int]") -> Any:
    """The same memory as a column of Arrow, which would look at each element otherwise."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _state(snapshot: Snapshot, common: dict[str, Any], seqs: Iterator[int]) -> Iterator[Row]:
    failed = failure(snapshot)
    if failed is not None:
        device, ts, quality, fields = failed
        when = {"ts": ts, "ts_quality": "exact"} if ts is not None else {}
        yield make_row("oom", fields, {**common, **when, "device_id": device, "quality": quality, "seq": next(seqs)})
    late = {device: snapshot.late_stacks(device) for device in snapshot.devices}
    for segment in snapshot.segments:
        place = {**common, "device_id": segment.device}
        yield make_row("segment", _segment(snapshot.name, segment), {**place, "seq": next(seqs)})
        for block in segment.blocks:
            fields = {
                "snapshot_id": snapshot.name, "segment_address": hex(segment.address), "address": hex(block.address),
                "size_bytes": block.size_bytes, "requested_bytes": block.requested_bytes, "state": block.state,
                "stack_id": _stack_id(late[segment.device].get(block.address, block.stack)),
            }  # fmt: skip
            yield make_row("block", fields, {**place, "seq": next(seqs)})
    for device in snapshot.devices:
        segments = [segment for segment in snapshot.segments if segment.device == device]
        yield make_row("allocator", _counters(segments), {**common, "device_id": device, "seq": next(seqs)})


def _segment(name: str, segment: Segment) -> dict[str, Any]:
    active = [block for block in segment.blocks if block.state != "inactive"]
    return {
        "snapshot_id": name, "address": hex(segment.address), "pool_id": _pool_name(segment.pool),
        "cuda_stream": str(segment.stream), "size_class": segment.size_class, "expandable": segment.expandable,
        "total_bytes": segment.total_bytes,
        "allocated_bytes": sum(block.size_bytes for block in active if block.state == "active_allocated"),
        "active_bytes": sum(block.size_bytes for block in active),
        "requested_bytes": sum(block.requested_bytes or 0 for block in active),
        "stack_id": _stack_id(segment.stack),
    }  # fmt: skip


def _counters(segments: list[Segment]) -> dict[str, int]:
    """As torch.cuda.memory_stats names them."""
    blocks = [block for segment in segments for block in segment.blocks]
    used = [segment for segment in segments if any(block.state != "inactive" for block in segment.blocks)]
    free = [block.size_bytes for block in blocks if block.state == "inactive"]
    active = [block for block in blocks if block.state != "inactive"]
    return {
        "allocated_bytes": sum(block.size_bytes for block in active if block.state == "active_allocated"),
        "reserved_bytes": sum(segment.total_bytes for segment in segments),
        "active_bytes": sum(block.size_bytes for block in active),
        "requested_bytes": sum(block.requested_bytes or 0 for block in active),
        "inactive_split_bytes": sum(b.size_bytes for segment in used for b in segment.blocks if b.state == "inactive"),
        "largest_free_block_bytes": max(free, default=0),
        "private_pool_bytes": sum(segment.total_bytes for segment in segments if segment.pool != DEFAULT_POOL),
    }


def _pool_name(pool: PoolId) -> str:
    return f"{pool[0]}.{pool[1]}"


def _stack_id(stack: int) -> str | None:
    return f"s{stack}" if stack != NO_STACK else None
