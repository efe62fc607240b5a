"""A recording cut into hours of workers, for a fleet's store; see `oomctl.schemas.partitions` for the layout.

A row lies in the hour of its time; one without a time goes with the row before it in its stream. An hour alone does not
tell how its worker started, nor what followed a failure in its last minute: a context file repeats that, of bounded size.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from oomctl.collectors.recorder.contents import FIRST_ROWS, LASTING
from oomctl.schemas import ddl, storage
from oomctl.schemas.declare import Kind
from oomctl.schemas.events import KINDS
from oomctl.schemas.partitions import Place

if TYPE_CHECKING:
    import duckdb

BEFORE = "INTERVAL 10 MINUTE"
"""As much as an incident file holds of what came before it."""
AFTER = "INTERVAL 5 MINUTE"
"""Within which the kernel, a supervisor and the other ranks have had their say."""
MAX_LASTING = 20_000
"""Rows of the worker's past, beside the first of each stream."""

_SPOT = "spot_place, spot_owner, spot_moment, spot_lasting, spot_ordinal"
_SPOTS = f"""
CREATE SCHEMA placed;
CREATE TABLE placed.told AS
SELECT
    stream, seq, incarnation, {LASTING} AS spot_lasting,
    coalesce(last_value(ts IGNORE NULLS) OVER so_far, first_value(ts IGNORE NULLS) OVER to_come) AS spot_moment,
    coalesce(last_value(node IGNORE NULLS) OVER so_far, first_value(node IGNORE NULLS) OVER to_come) AS node,
    coalesce(last_value(worker IGNORE NULLS) OVER so_far, first_value(worker IGNORE NULLS) OVER to_come) AS worker
FROM events
WINDOW
    so_far AS (PARTITION BY stream ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
    to_come AS (PARTITION BY stream ORDER BY seq ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING);
-- What names nobody, such as the kernel's log, is of the only one there is.
CREATE TABLE placed.spot AS
WITH alone AS (
    SELECT
        CASE WHEN count(DISTINCT node) = 1 THEN min(node) END AS node,
        CASE WHEN count(DISTINCT worker) = 1 THEN min(worker) END AS worker
    FROM placed.told
),
owned AS (
    SELECT
        stream, seq, incarnation, spot_lasting, spot_moment, date_trunc('hour', spot_moment) AS hour,
        coalesce(told.node, alone.node) AS node, coalesce(told.worker, alone.worker) AS worker
    FROM placed.told, alone
)
SELECT
    *, dense_rank() OVER (ORDER BY node NULLS FIRST, worker NULLS FIRST) AS spot_owner,
    dense_rank() OVER (ORDER BY node NULLS FIRST, worker NULLS FIRST, hour NULLS FIRST) AS spot_place,
    count(*) FILTER (spot_lasting) OVER (PARTITION BY node, worker ORDER BY spot_moment, stream, seq) AS spot_ordinal
FROM owned;
DROP TABLE placed.told;
"""


class Partitions:
    """The hours of the workers in an event table.

    Args:
        connection: From `storage.connect`, with the rows; its stored tables stay as they are.
        writer: Program and version, for the files.
    """

    def __init__(self, connection: "duckdb.DuckDBPyConnection", writer: str) -> None:
        self._connection = connection
        self._writer = writer
        connection.execute(_SPOTS)
        for kind in KINDS.values():
            connection.execute(
                f"CREATE TABLE {_placed(kind)} AS SELECT own.*, {_SPOT} "
                f"FROM {ddl.stored(kind)} AS own JOIN placed.spot USING (stream, seq) ORDER BY spot_place"
            )
        found = connection.execute(
            "SELECT DISTINCT spot_place, spot_owner, node, worker, hour FROM placed.spot ORDER BY ALL"
        )
        self._spots = {
            Place(node, worker, None if hour is None else hour.replace(tzinfo=UTC)): (spot, owner)
            for spot, owner, node, worker, hour in found.fetchall()
        }

    def __iter__(self) -> Iterator[Place]:
        return iter(self._spots)

    def __len__(self) -> int:
        return len(self._spots)

    def write(self, place: Place, path: Path) -> None:
        """Write an hour's own rows."""
        number, _ = self._spots[place]
        self._write(path, f"spot_place = {number}")

    def write_context(self, place: Place, path: Path) -> bool:
        """Write what an hour's triage needs of the hours beside it; False, and no file, where there is nothing."""
        if place.hour is None:
            return False
        where = self._around(place, place.hour)
        if not any(
            self._connection.execute(f"SELECT 1 FROM {_placed(kind)} WHERE {where} LIMIT 1").fetchall()
            for kind in KINDS.values()
        ):
            return False
        self._write(path, where)
        return True

    def _around(self, place: Place, hour: datetime) -> str:
        spot, owner = self._spots[place]
        begin = f"TIMESTAMP '{hour:%Y-%m-%d %H:00:00}'"
        past = self._connection.execute(
            f"SELECT coalesce(max(spot_ordinal), 0) FROM placed.spot WHERE spot_owner = {owner} AND spot_moment < {begin}"
        ).fetchall()[0][0]
        alive = f"(SELECT DISTINCT incarnation FROM placed.spot WHERE spot_place = {spot} AND incarnation IS NOT NULL)"
        return (
            f"spot_owner = {owner} AND spot_place <> {spot} AND spot_moment < {begin} + INTERVAL 1 HOUR + {AFTER} "
            f"AND (spot_moment >= {begin} - {BEFORE} OR (spot_lasting AND (incarnation IS NULL OR incarnation IN {alive}) "
            f"AND (seq <= {FIRST_ROWS} OR spot_ordinal > {past - MAX_LASTING})))"
        )

    def _write(self, path: Path, where: str) -> None:
        def rows(kind: Kind) -> str:
            return f"(SELECT * EXCLUDE ({_SPOT}) FROM {_placed(kind)} WHERE {where})"

        storage.write_parquet(self._connection, path, self._writer, source=rows)


def _placed(kind: Kind) -> str:
    return f'placed."{kind.name}"'
