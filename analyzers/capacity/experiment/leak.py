"""What leaks under a steady load: `leak_slope`, over requests that ended in place of seconds.

Over time a leak per request goes in the steps of a random walk, as arrivals do, and its readings hardly count as
independent. Over the requests themselves it is a straight line.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.schemas import ddl
from oomctl.schemas.events import KINDS
from oomctl.schemas.experiment import Leak

if TYPE_CHECKING:
    import duckdb

SETTLES = 0.2
"""Of the time, at its beginning, is left out: arenas and caches fill."""
LEAST_BYTES = 256 << 10
"""Of growth over the whole span, by its lower end: a heap moves by some pages without any leak."""
MEMORY = ("allocator", "device", "process", "host")
"""Kinds that `leak_slope` reads."""


def leaks(connection: "duckdb.DuckDBPyConnection", from_us: int, to_us: int, ends_us: Sequence[int]) -> list[Leak]:
    """Each figure of memory over a span of steady load.

    Args:
        connection: With the event table of the recording, which is changed: the clock of its rows becomes the count of
            requests that ended by then, a second for each, and all rows but those of the span go.
        from_us: Beginning of the load, microseconds since 1970.
        to_us: Its end.
        ends_us: When each request ended.
    """
    begun_us = from_us + round((to_us - from_us) * SETTLES)
    counted = sorted(end for end in ends_us if begun_us <= end <= to_us)
    if not counted:
        return []
    _count_requests(connection, begun_us, to_us, counted)
    queries.install(connection)
    rate = len(counted) / ((to_us - begun_us) / 1e6)
    whole, half = len(counted) + 1.0, len(counted) / 2
    halves = [_slopes(connection, whole, until=half), _slopes(connection, half)]
    found = []
    for key, row in _slopes(connection, whole).items():
        slope, low, high = (row[f"{name}_bytes_per_s"] for name in ("slope", "low", "high"))
        found.append(
            Leak(
                figure=row["figure"],
                whose=row["whose"] or "",
                points=row["points"],
                slope_bytes_per_s=slope * rate,
                low_bytes_per_s=None if low is None else low * rate,
                high_bytes_per_s=None if high is None else high * rate,
                slope_bytes_per_request=slope,
                low_bytes_per_request=low,
                high_bytes_per_request=high,
                grows=None
                if low is None
                else _grows(low * len(counted), [each.get(key, {}).get("grows") for each in halves]),
            )
        )
    return sorted(found, key=lambda each: (not each.grows, -each.slope_bytes_per_s))


def _grows(least_bytes: float, halves: Sequence[bool | None]) -> bool | None:
    """Whether it went on in both halves: what jumps once is no leak; None where a half has too few readings."""
    if least_bytes < LEAST_BYTES or False in halves:
        return False
    return None if None in halves else True


def _count_requests(connection: "duckdb.DuckDBPyConnection", begun_us: int, to_us: int, ends_us: Sequence[int]) -> None:
    connection.execute("CREATE TEMP TABLE ended (ts TIMESTAMP, requests BIGINT)")
    connection.execute(
        "INSERT INTO ended SELECT make_timestamp(us), place "
        "FROM (SELECT unnest($ends) AS us, generate_subscripts($ends, 1) AS place)",
        {"ends": list(ends_us)},
    )
    for kind in KINDS.values():
        table = ddl.stored(kind)
        if kind.name not in MEMORY:
            connection.execute(f"DELETE FROM {table}")
            continue
        connection.execute(
            f"DELETE FROM {table} WHERE coalesce(epoch_us(ts) NOT BETWEEN $begun AND $until, TRUE)",
            {"begun": begun_us, "until": to_us},
        )
        connection.execute(
            f"UPDATE {table} AS told SET ts = make_timestamp(counted.requests * 1000000) FROM ("
            f"SELECT reading.rowid AS place, coalesce(ended.requests, 0) AS requests "
            f"FROM {table} AS reading ASOF LEFT JOIN ended ON reading.ts >= ended.ts) AS counted "
            f"WHERE told.rowid = counted.place"
        )


def _slopes(
    connection: "duckdb.DuckDBPyConnection", window: float, until: float | None = None
) -> dict[tuple[Any, ...], dict[str, Any]]:
    query = queries.load("postmortem", "leak_slope")
    asked = {"window_s": f"{window:.3f}"}
    if until is not None:
        asked["at"] = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    cursor = connection.execute(query.sql, query.bound(asked))
    names = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {(row["worker"], row["life"], row["figure"], row["whose"], row["device_id"]): row for row in rows}
