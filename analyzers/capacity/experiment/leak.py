"""What leaks under a steady load: `leak_slope`, put in bytes per request."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.schemas.experiment import Leak

if TYPE_CHECKING:
    import duckdb

SETTLES = 0.2
"""Of the time, at its beginning, is left out: arenas and caches fill."""


def leaks(connection: "duckdb.DuckDBPyConnection", from_us: int, to_us: int, rate_per_s: float) -> list[Leak]:
    """Each figure of memory over a span of steady load.

    Args:
        connection: With the event table of the recording.
        from_us: Beginning of the load, microseconds since 1970.
        to_us: Its end.
        rate_per_s: Requests per second that it was.
    """
    queries.install(connection)
    span_s = (to_us - from_us) / 1e6 * (1 - SETTLES)
    whole = _slopes(connection, to_us, span_s)
    later = _slopes(connection, to_us, span_s / 2)
    found = []
    for key, row in whole.items():
        low, high = row["low_bytes_per_s"], row["high_bytes_per_s"]
        half = later.get(key, {}).get("grows")
        grows = None if low is None else bool(row["grows"]) and half is not False
        found.append(
            Leak(
                figure=row["figure"],
                whose=row["whose"] or "",
                points=row["points"],
                slope_bytes_per_s=row["slope_bytes_per_s"],
                low_bytes_per_s=low,
                high_bytes_per_s=high,
                slope_bytes_per_request=row["slope_bytes_per_s"] / rate_per_s,
                low_bytes_per_request=None if low is None else low / rate_per_s,
                high_bytes_per_request=None if high is None else high / rate_per_s,
                grows=grows,
            )
        )
    return sorted(found, key=lambda each: (not each.grows, -each.slope_bytes_per_s))


def _slopes(connection: "duckdb.DuckDBPyConnection", at_us: int, window_s: float) -> dict[tuple[Any, ...], dict[str, Any]]:
    query = queries.load("postmortem", "leak_slope")
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    cursor = connection.execute(query.sql, query.bound({"at": at.isoformat(), "window_s": f"{window_s:.3f}"}))
    names = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {(row["worker"], row["life"], row["figure"], row["whose"], row["device_id"]): row for row in rows}
