"""A scenario in a database, ready to be asked."""

from typing import TYPE_CHECKING

from oomctl import queries
from oomctl.schemas import storage
from tests.scenarios.table import build_arrow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def connected(
    name: str,
    *,
    seed: int = 1,
    ranks: int = 1,
    rows: int = 200,
    device_bytes: int = 80 * 2**30,
    engine: str | None = None,
    backwards: bool = False,
) -> "DuckDBPyConnection":
    """The event table of a scenario, with the derived views; arguments as for `build_arrow`.

    Args:
        name: Of the catalogue.
        seed: As for `build_arrow`.
        ranks: As for `build_arrow`.
        rows: As for `build_arrow`.
        device_bytes: As for `build_arrow`.
        engine: As for `build_arrow`.
        backwards: Insert the rows in the opposite order, which must change nothing.
    """
    frame = build_arrow(name, seed=seed, ranks=ranks, rows=rows, device_bytes=device_bytes, engine=engine)
    connection = storage.connect()
    connection.register("frame", frame)
    order = " ORDER BY seq DESC" if backwards else ""
    storage.load_relation(connection, f"(SELECT * FROM frame{order})")
    connection.unregister("frame")
    queries.install(connection)
    return connection
