"""A recording's rows in the order of their times, as the picture takes them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from oomctl.analyzers.picture.state import KINDS
from oomctl.schemas.rows import Row

if TYPE_CHECKING:
    import duckdb

COMMON = ("ts", "stream", "worker", "incarnation", "rank", "rank_name", "device_id", "kind")
BATCH = 1_000


def rows(connection: "duckdb.DuckDBPyConnection") -> Iterator[Row]:
    """Rows with a time, of the kinds that a picture takes.

    Args:
        connection: With the event table; nobody else asks it until the last row came.
    """
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    columns = ", ".join((*COMMON, *KINDS))
    cursor = connection.execute(
        f"SELECT {columns} FROM events WHERE ts IS NOT NULL AND kind IN ({kinds}) ORDER BY ts, stream, seq"
    )
    while batch := cursor.fetchmany(BATCH):
        for values in batch:
            row = dict(zip((*COMMON, *KINDS), values, strict=True))
            ts: datetime = row["ts"]
            row["ts"] = int(ts.replace(tzinfo=ts.tzinfo or UTC).timestamp() * 1e6)
            yield row
