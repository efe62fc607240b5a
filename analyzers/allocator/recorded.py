"""A snapshot out of the event table, as its reader had it: a verdict is computed from recorded rows."""

from collections.abc import Iterable
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
_FRAMES = "SELECT stack_id, file, stack_line, function FROM stack WHERE stream = $1 ORDER BY seq"
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
Row = tuple[Any, ...]
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

    snapshot, stack_ids = assembled(stream, rows(_SEGMENTS), rows(_BLOCKS), rows(_FRAMES), rows(_SETTINGS))
    if index is not None:
        numbers = {stack_id: number for number, stack_id in enumerate(stack_ids)}
        before, history = _since(connection, stream, device, index, numbers)
        if history is not None and changed(history, before):
            snapshot = rewind(replace(snapshot, histories={device: history}), device, before)
    return snapshot, stack_ids


def assembled(
    stream: str, segments: Iterable[Row], blocks: Iterable[Row], frames: Iterable[Row], settings: Iterable[Row]
) -> tuple[Snapshot, list[str]]:
    """A snapshot from its rows, in the order in which they were recorded.

    Args:
        stream: Of the rows.
        segments: (device, address, total_bytes, cuda_stream, size_class, pool_id, expandable, stack_id).
        blocks: (device, segment_address, address, size_bytes, requested_bytes, state, stack_id).
        frames: (stack_id, file, line, function), stack by stack, outermost first.
        settings: (key, value).

    Returns:
        The snapshot, without a history, and the `stack_id` of each of its stacks.
    """
    known: dict[Frame, int] = {}
    stacks: list[tuple[int, ...]] = []
    numbers: dict[str, int] = {}
    for stack_id, told in groupby(frames, itemgetter(0)):
        numbers[stack_id] = len(stacks)
        numbered = [known.setdefault((row[1] or "", row[2] or 0, row[3] or ""), len(known)) for row in told]
        stacks.append(tuple(reversed(numbered)))
    by_home: dict[tuple[int, int], list[Block]] = {}
    for device, home, address, size, requested, state, stack_id in blocks:
        by_home.setdefault((device, home), []).append(
            Block(address, size, requested, state, numbers.get(stack_id, NO_STACK))
        )
    found = [
        Segment(
            device=device,
            address=address,
            total_bytes=total,
            stream=cuda_stream or 0,
            size_class=size_class,
            pool=pool_id(pool),
            expandable=bool(expandable),
            stack=numbers.get(stack_id, NO_STACK),
            blocks=tuple(by_home.get((device, address), ())),
        )
        for device, address, total, cuda_stream, size_class, pool, expandable, stack_id in segments
    ]
    told_settings = {key: _setting(value) for key, value in settings}
    return Snapshot(stream, found, {}, stacks, list(known), told_settings), list(numbers)


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
