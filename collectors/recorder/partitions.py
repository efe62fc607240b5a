"""A recording cut into hours of workers, for a fleet's store; see `oomctl.schemas.partitions` for the layout.

A row lies in the hour of its time; one without a time goes with the row before it in its stream. An hour alone does not
tell how its worker started, nor what followed a failure in its last minute: a context file repeats that, of bounded size.
"""

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomctl.collectors.recorder.contents import FIRST_ROWS, LASTING
from oomctl.schemas import ddl, storage
from oomctl.schemas.events import KIND_ORDER, KINDS
from oomctl.schemas.partitions import Place
from oomctl.schemas.wide import ROW_GROUP_ROWS

if TYPE_CHECKING:
    import duckdb

BEFORE = "INTERVAL 10 MINUTE"
"""As much as an incident file holds of what came before it."""
AFTER = "INTERVAL 5 MINUTE"
"""Within which the kernel, a supervisor and the other ranks have had their say."""
MAX_LASTING = 20_000
"""Rows of the worker's past, beside the first of each stream."""
TOGETHER_ROWS = 65_536
"""Of small files that are fetched at once: asking costs more than they do."""

FILE = "spot_file"
_SPOTS = f"""
CREATE SCHEMA placed;
CREATE TABLE placed.told AS
SELECT
    stream, seq, incarnation, {LASTING} AS lasting,
    coalesce(last_value(ts IGNORE NULLS) OVER so_far, first_value(ts IGNORE NULLS) OVER to_come) AS moment,
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
        stream, seq, incarnation, lasting, moment, date_trunc('hour', moment) AS hour,
        coalesce(told.node, alone.node) AS node, coalesce(told.worker, alone.worker) AS worker
    FROM placed.told, alone
)
SELECT
    *, dense_rank() OVER (ORDER BY node NULLS FIRST, worker NULLS FIRST) AS owner,
    dense_rank() OVER (ORDER BY node NULLS FIRST, worker NULLS FIRST, hour NULLS FIRST) AS place,
    count(*) FILTER (lasting) OVER (PARTITION BY node, worker ORDER BY moment, stream, seq) AS ordinal
FROM owned;
DROP TABLE placed.told;
CREATE TABLE placed.file AS
WITH place AS (SELECT DISTINCT place, owner, hour FROM placed.spot WHERE hour IS NOT NULL),
alive AS (SELECT DISTINCT place, incarnation FROM placed.spot WHERE incarnation IS NOT NULL),
past AS (
    SELECT place.place, coalesce(max(ordinal) FILTER (spot.moment < place.hour), 0) AS ordinal
    FROM place INNER JOIN placed.spot USING (owner)
    GROUP BY ALL
)
SELECT 2 * place AS spot_file, stream, seq FROM placed.spot
UNION ALL
SELECT 2 * place.place + 1, spot.stream, spot.seq
FROM place
INNER JOIN past USING (place)
INNER JOIN placed.spot USING (owner)
LEFT JOIN alive ON alive.place = place.place AND alive.incarnation = spot.incarnation
WHERE spot.place <> place.place AND spot.moment < place.hour + INTERVAL 1 HOUR + {AFTER}
    AND (spot.moment >= place.hour - {BEFORE} OR (
        spot.lasting AND (spot.incarnation IS NULL OR alive.incarnation IS NOT NULL)
        AND (spot.seq <= {FIRST_ROWS} OR spot.ordinal > past.ordinal - {MAX_LASTING})
    ));
"""
"""placed.file: which rows each file has. That of a place's own rows has twice the place's number, its context one more."""


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
        found = connection.execute("SELECT DISTINCT place, node, worker, hour FROM placed.spot ORDER BY place").fetchall()
        self._places = {
            Place(node, worker, None if hour is None else hour.replace(tzinfo=UTC)): 2 * number
            for number, node, worker, hour in found
        }
        self._rows = dict(
            connection.execute("SELECT spot_file, count(*) FROM placed.file GROUP BY ALL ORDER BY ALL").fetchall()
        )
        self._kinds = [
            kind
            for _, kind in sorted(KINDS.items())
            if connection.execute(f"SELECT 1 FROM {ddl.stored(kind)} LIMIT 1").fetchall()
        ]
        self._held: dict[int, list[Any]] = {}

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def write(self, place: Place, path: Path) -> None:
        """Write an hour's own rows."""
        self._write(self._places[place], path)

    def write_context(self, place: Place, path: Path) -> bool:
        """Write what an hour's triage needs of the hours beside it; False, and no file, where there is nothing."""
        file = self._places[place] + 1
        if file not in self._rows:
            return False
        self._write(file, path)
        return True

    def _write(self, file: int, path: Path) -> None:
        storage.write_parquet(self._connection, path, self._writer, rows=self._batches(file))

    def _batches(self, file: int) -> Iterator[Any]:
        """The rows of a file, kind by kind."""
        if self._rows[file] > TOGETHER_ROWS:
            yield from (batch for _, batch in self._fetched(file, file))
            return
        if file not in self._held:
            self._hold(file)
        yield from self._held[file]

    def _hold(self, first: int) -> None:
        """Fetch a file and those that follow, as many as go together."""
        last, rows = first, 0
        for file, count in self._rows.items():
            if file >= first:
                rows += count
                if rows > TOGETHER_ROWS:
                    break
                last = file
        self._held = {file: [] for file in self._rows if first <= file <= last}
        for file, batch in self._fetched(first, last):
            self._held[file].append(batch)

    def _fetched(self, first: int, last: int) -> Iterator[tuple[int, Any]]:
        """(file, batch) of some files, a kind after the other; in each the files and their rows in order."""
        for kind in self._kinds:
            source = (
                f"(SELECT {FILE}, own.* FROM {ddl.stored(kind)} AS own JOIN placed.file USING (stream, seq) "
                f"WHERE {FILE} BETWEEN {first} AND {last})"
            )
            asked = ddl.ordered(kind, (FILE, *KIND_ORDER), source, (FILE,))
            for batch in self._connection.sql(asked).to_arrow_reader(ROW_GROUP_ROWS):
                begin, own = 0, batch.drop_columns(FILE)
                for run in batch[FILE].value_counts():
                    yield run["values"].as_py(), own.slice(begin, run["counts"].as_py())
                    begin += run["counts"].as_py()
