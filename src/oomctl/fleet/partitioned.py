"""Writing a recording into a fleet's store, hour by hour: what is there already is completed, never replaced by less."""

import filecmp
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oomctl.fleet.store import Store
from oomctl.schemas import storage
from oomctl.schemas.partitions import Place

if TYPE_CHECKING:
    import duckdb

_CONTRADICTED = (
    f"SELECT 1 FROM events AS new JOIN {storage.PARQUET} AS old USING (stream, seq) "
    "WHERE old.kind <> new.kind OR old.ts IS DISTINCT FROM new.ts LIMIT 1"
)


@dataclass
class Written:
    """What was done.

    Attributes:
        hours: Hours of workers that the recording holds.
        unchanged: Of these, those that lay there already, whole.
        workers: How many workers they are of.
    """

    hours: int = 0
    unchanged: int = 0
    workers: int = 0


def write_partitioned(connection: "duckdb.DuckDBPyConnection", store: Store, writer: str) -> Written:
    """Write the event table of one or several recordings into a store.

    The recorder gives up old hours for its budget, and an hour that goes on is written again later: so the rows that lie
    there and those that come are put together. A recording that contradicts what lies there, for it is of another worker of
    that name, gets a file of its own.

    Args:
        connection: From `storage.connect`, with the rows.
        store: Where to.
        writer: Program and version.

    Raises:
        OomctlError: If the store cannot be read or written.
    """
    from oomctl.collectors.recorder.partitions import Partitions

    parts = Partitions(connection, writer)
    done = Written(hours=len(parts), workers=len({(place.node, place.worker) for place in parts}))
    with tempfile.TemporaryDirectory(prefix="oomctl-") as name:
        new, old = Path(name) / "new.parquet", Path(name) / "old.parquet"
        for place in parts:
            parts.write(place, new)
            settled, changed = _settle(store, place, new, old, writer)
            if parts.write_context(place, new):
                changed |= _put(store, settled.context, new, old, writer)
            done.unchanged += not changed
    return done


def _settle(store: Store, place: Place, new: Path, old: Path, writer: str) -> tuple[Place, bool]:
    """Put an hour where nothing contradicts it; returns where, and whether anything changed."""
    while store.fetch(place.path, old) and not filecmp.cmp(new, old, shallow=False) and _contradicts(new, old):
        place = Place(place.node, place.worker, place.hour, place.number + 1)
    return place, _put(store, place.path, new, old, writer)


def _contradicts(new: Path, old: Path) -> bool:
    with storage.connect() as connection:
        storage.load_parquet(connection, new)
        return bool(connection.execute(_CONTRADICTED, [str(old)]).fetchall())


def _put(store: Store, path: str, new: Path, old: Path, writer: str) -> bool:
    """Write a file, together with what lies there; False if all of its rows are there already."""
    if store.fetch(path, old):
        if filecmp.cmp(new, old, shallow=False):
            return False
        with storage.connect() as connection:
            fresh = storage.load_parquet(connection, new)
            kept = storage.load_parquet(connection, old, path, once=True)
            there = connection.execute(f"SELECT count(*) FROM {storage.PARQUET}", [str(old)]).fetchall()[0][0]
            if fresh + kept == there:
                return False
            storage.write_parquet(connection, new, writer)
    store.put(path, new)
    return True
