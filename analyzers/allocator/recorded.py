"""A snapshot out of the event table, as its reader had it: a verdict is computed from recorded rows."""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from oomctl.analyzers.allocator.rewind import changed, rewind
from oomctl.schemas.heap import DEFAULT_POOL, NO_STACK, UNKNOWN, Block, Frame, History, PoolId, Segment, Snapshot

if TYPE_CHECKING:
    import duckdb

_SEGMENTS = """
SELECT device_id, CAST(address AS BIGINT), total_bytes, CAST(cuda_stream AS BIGINT), size_class, pool_id, expandable,
    stack_id
FROM segment WHERE stream = $1 ORDER BY seq
"""
_BLOCKS = """
SELECT device_id, CAST(segment_address AS BIGINT), CAST(address AS BIGINT), size_bytes, requested_bytes, state, stack_id
FROM block WHERE stream = $1 ORDER BY seq
"""
_STACKS = "SELECT stack_id, file, stack_line, function FROM stack WHERE stream = $1 ORDER BY stack_id, depth DESC"
_EVENTS = """
WITH later AS (SELECT * FROM alloc WHERE stream = $1 AND device_id = $2 AND n > $3),
made AS (
    SELECT * FROM alloc
    WHERE stream = $1 AND device_id = $2 AND n < $3 AND action = 'alloc' AND address IN (
        SELECT address FROM later WHERE action IN ('free_completed', 'free')
    )
    QUALIFY row_number() OVER (PARTITION BY address ORDER BY n DESC) = 1
)
SELECT n, action, CAST(address AS BIGINT), size_bytes, CAST(cuda_stream AS BIGINT), pool_id, stack_id
FROM (FROM made UNION ALL FROM later) ORDER BY n
"""
BATCH = 10_000
_SETTINGS = "SELECT key, value FROM manifest WHERE stream = $1 AND section = 'allocator' ORDER BY seq"


def recorded_state(
    connection: "duckdb.DuckDBPyConnection", stream: str, device: int = 0, index: int | None = None
) -> tuple[Snapshot, list[str]]:
    """The heap as it was after an event, without a history.

    Args:
        connection: With the event table.
        stream: Of the snapshot's rows.
        device: Which device's history the index is of.
        index: Of the event (`alloc.n`); None is the snapshot's own instant.

    Returns:
        The snapshot, and the `stack_id` of each of its stacks.
    """

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return connection.execute(sql, [stream]).fetchall()

    frames: dict[Frame, int] = {}
    stacks: list[tuple[int, ...]] = []
    numbers: dict[str, int] = {}
    for stack_id, told in groupby(rows(_STACKS), itemgetter(0)):
        numbers[stack_id] = len(stacks)
        stacks.append(tuple(frames.setdefault((r[1] or "", r[2] or 0, r[3] or ""), len(frames)) for r in told))
    blocks: dict[tuple[int, int], list[Block]] = {}
    for device, home, address, size, requested, state, stack_id in rows(_BLOCKS):
        blocks.setdefault((device, home), []).append(
            Block(address, size, requested, state, numbers.get(stack_id, NO_STACK))
        )
    segments = [
        Segment(
            device=device,
            address=address,
            total_bytes=total,
            stream=cuda_stream or 0,
            size_class=size_class,
            pool=pool_id(pool),
            expandable=bool(expandable),
            stack=numbers.get(stack_id, NO_STACK),
            blocks=tuple(blocks.get((device, address), ())),
        )
        for device, address, total, cuda_stream, size_class, pool, expandable, stack_id in rows(_SEGMENTS)
    ]
    settings = {key: _setting(value) for key, value in rows(_SETTINGS)}
    snapshot = Snapshot(stream, segments, {}, stacks, list(frames), settings)
    if index is not None:
        before, history = _since(connection, stream, device, index, numbers)
        if history is not None and changed(history, before):
            snapshot = rewind(replace(snapshot, histories={device: history}), device, before)
    return snapshot, list(numbers)


def _since(
    connection: "duckdb.DuckDBPyConnection", stream: str, device: int, index: int, numbers: dict[str, int]
) -> tuple[int, History | None]:
    """What came after an event, behind the allocations of the blocks that it freed; and where those end."""
    history = History()
    before = -1
    cursor = connection.execute(_EVENTS, [stream, device, index])
    while rows := cursor.fetchmany(BATCH):
        for n, action, address, size, cuda_stream, pool, stack_id in rows:
            before += n < index
            if pool is not None:
                history.tells_pools = True
                history.pools[len(history)] = pool_id(pool)
            history.actions.append(action)
            history.addresses.append(UNKNOWN if address is None else address)
            history.sizes_bytes.append(UNKNOWN if size is None else size)
            history.streams.append(UNKNOWN if cuda_stream is None else cuda_stream)
            history.stacks.append(numbers.get(stack_id, NO_STACK))
    return before, history if len(history) else None


def pool_id(text: str | None) -> PoolId:
    """As `segment.pool_id` and `alloc.pool_id` have it, "0.1"."""
    first, _, second = (text or "").partition(".")
    return (int(first), int(second)) if first.isdecimal() and second.isdecimal() else DEFAULT_POOL


def _setting(value: str) -> str | int | float | bool:
    if value in ("True", "False"):
        return value == "True"
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value
