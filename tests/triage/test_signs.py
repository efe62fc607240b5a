"""A recording without any sign of an incident has none, whatever else it tells: fleets are sorted by that."""

from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from oomctl import queries
from oomctl.analyzers.triage import survey
from oomctl.analyzers.triage.groups import incidents
from oomctl.analyzers.triage.signs import FULL_RATIO, NO_BEGINNING, any_sign
from oomctl.schemas import ddl, storage
from oomctl.schemas.events import KINDS
from tests.scenarios import catalogue
from tests.scenarios.labels import NOTHING
from tests.scenarios.table import SCHEMA, build_arrow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN = [(scenario.name, engine) for scenario in catalogue() for engine in scenario.engines]
SIGNS = {
    "oom": "TRUE",
    "refusal": "TRUE",
    "lifecycle": "phase = 'killed'",
    "fault": f"code NOT IN ({', '.join(map(repr, sorted(NO_BEGINNING)))})",
}
PRESSURE = {
    "kv_pool": f"usage_ratio >= {FULL_RATIO}",
    "throughput": "waiting_requests <> 0 OR swapped_requests > 0",
}
"""It takes both: where either is gone, so is the sign."""


@cache
def everything() -> Any:
    """All scenarios, of each engine, as streams of one table."""
    frames = []
    for name, engine in SHOWN:
        frame = build_arrow(name, seed=3, ranks=2, engine=engine)
        for column in ("stream", "worker"):
            told = [None if value is None else f"{engine}/{name}/{value}" for value in frame[column].to_pylist()]
            frame = frame.set_column(SCHEMA.get_field_index(column), SCHEMA.field(column), pa.array(told, pa.string()))
        frames.append(frame)
    return pa.concat_tables(frames)


def connected(source: str) -> "DuckDBPyConnection":
    connection = storage.connect()
    connection.register("frame", everything())
    storage.load_relation(connection, "frame")
    connection.unregister("frame")
    for kind in KINDS.values():
        connection.execute(f"UPDATE {ddl.stored(kind)} SET source = '{source}'")
    queries.install(connection)
    return connection


def signs(connection: "DuckDBPyConnection") -> bool:
    return any_sign(connection.sql("SELECT * FROM events").to_arrow_table())


@pytest.mark.parametrize(("source", "pressure"), [("log", "kv_pool"), ("agent", "throughput")])
def test_where_all_signs_are_taken_away_nothing_is_found(source: str, pressure: str) -> None:
    connection = connected(source)
    assert signs(connection) and len(incidents(connection)) > len(SHOWN) / 2
    for kind, condition in {**SIGNS, pressure: PRESSURE[pressure]}.items():
        assert signs(connection), "each of them is one"
        assert connection.execute(f"DELETE FROM {ddl.stored(KINDS[kind])} WHERE {condition}").fetchall()[0][0] > 0
    assert not signs(connection)
    assert survey(connection) == ([], 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_has_a_verdict_has_a_sign(seed: int) -> None:
    for scenario in catalogue():
        for engine in scenario.engines:
            found = any_sign(build_arrow(scenario.name, seed=seed, engine=engine))
            assert found or scenario.label == NOTHING, f"{scenario.name}, {engine}"


def test_a_healthy_worker_shows_none() -> None:
    assert not any_sign(build_arrow("healthy", rows=2_000))
