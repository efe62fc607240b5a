"""Queries that are tagged portable, in Spark on the raw files of a fleet: the same rows as in DuckDB."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oomctl import queries
from oomctl.pipeline import open_inputs
from oomctl.schemas import ddl
from oomctl.schemas.events import KINDS
from tests.fleet.made import three_workers
from tests.queries.test_portable import PORTABLE, plain

pytestmark = pytest.mark.fleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_workers(tmp_path_factory.mktemp("spark"), "w0")


@pytest.fixture(scope="module")
def spark(fleet: Path) -> Iterator[Any]:
    """A session with the tables of `oomctl schema events --sql`, over the files as docs/fleet.md says."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.read.parquet(str(fleet)).createOrReplaceTempView("events")
    for kind in KINDS.values():
        session.sql(ddl.create_view(kind).replace("CREATE VIEW", "CREATE TEMPORARY VIEW").rstrip(";"))
    yield session
    session.stop()


@pytest.mark.parametrize("name", PORTABLE)
def test_spark_gives_the_same_rows(name: str, fleet: Path, spark: Any) -> None:
    sql = queries.load("postmortem", name).sql.rstrip().rstrip(";")
    with open_inputs(sorted(map(str, fleet.rglob("hour-*.parquet")))).connection as connection:
        cursor = connection.execute(sql)
        wanted = [[plain(value) for value in row] for row in cursor.fetchall()]
        columns = [column[0] for column in cursor.description or ()]
    found = spark.sql(sql)
    assert found.columns == columns
    rows = [[plain(value) for value in row] for row in found.collect()]
    assert rows == wanted
    assert name not in ("fleet_failures", "fleet_lives", "fleet_settings") or rows
