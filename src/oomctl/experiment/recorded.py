"""What the flight recorder kept of a step: readings as evidence, leaks, and who the worker is."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from oomctl import queries
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.experiment import Reading

if TYPE_CHECKING:
    import duckdb


@contextmanager
def recording(folder: Path) -> Iterator["duckdb.DuckDBPyConnection | None"]:
    """The event table of a recording, also while it is written; None where it holds nothing yet."""
    from oomctl.pipeline import open_inputs

    try:
        loaded = open_inputs([str(folder)], lambda problem: None)
    except OomctlError:
        yield None
        return
    try:
        yield loaded.connection
    finally:
        loaded.connection.close()


def readings(folders: Sequence[Path], from_us: int, to_us: int) -> list[Reading]:
    """What memory, pools and queues did between two instants."""
    query = queries.load("capacity", "step_readings")
    found = []
    for folder in folders:
        with recording(folder) as connection:
            if connection is None:
                continue
            cursor = connection.execute(query.sql, query.bound({"from_us": str(from_us), "to_us": str(to_us)}))
            names = [column[0] for column in cursor.description or ()]
            found += [Reading(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]
    return found


def manifest(folder: Path) -> dict[tuple[str, str], str]:
    """(section, key) to value, as the last of the recording's rows have them."""
    with recording(folder) as connection:
        if connection is None:
            return {}
        rows = connection.execute("SELECT section, key, value FROM manifest ORDER BY stream, seq").fetchall()
    return {(str(section), str(key)): str(value) for section, key, value in rows}
