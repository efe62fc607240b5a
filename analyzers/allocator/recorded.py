"""A snapshot out of the event table, as its reader had it: a verdict is computed from recorded rows."""

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from oomctl.schemas.heap import DEFAULT_POOL, NO_STACK, Block, Frame, PoolId, Segment, Snapshot

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
_SETTINGS = "SELECT key, value FROM manifest WHERE stream = $1 AND section = 'allocator' ORDER BY seq"


def recorded_state(connection: "duckdb.DuckDBPyConnection", stream: str) -> tuple[Snapshot, list[str]]:
    """A snapshot without its history.

    Args:
        connection: With the event table.
        stream: Of the snapshot's rows.

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
    return Snapshot(stream, segments, {}, stacks, list(frames), settings), list(numbers)


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
