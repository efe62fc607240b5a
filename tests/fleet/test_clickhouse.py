"""Portable queries, and the page's example, in ClickHouse as a library (chdb) on raw files: the same rows as in DuckDB."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oomctl import queries
from oomctl.pipeline import open_inputs
from oomctl.schemas import ddl
from oomctl.schemas.events import KINDS
from tests.fleet.made import three_workers
from tests.queries.test_portable import PORTABLE, plain
from tests.working_tree import ROOT

pytestmark = pytest.mark.fleet
Answer = tuple[list[str], list[list[Any]]]
"""(columns, rows)."""
Ask = Callable[[str], Answer]
EXAMPLE = re.compile(r"\*\*ClickHouse\*\*.*?\n\n((?:    [^\n]*\n)+)", re.DOTALL)
BUCKET = "s3('https://bucket.s3.amazonaws.com/rec/**/hour-*.parquet', 'Parquet')"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_workers(tmp_path_factory.mktemp("clickhouse"), "vllm/0")


@pytest.fixture(scope="module")
def example() -> str:
    """The page's SQL."""
    found = EXAMPLE.search((ROOT / "docs" / "fleet.md").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def clickhouse(fleet: Path, example: str) -> Iterator[Ask]:
    """With the views of `oomctl schema events --sql`, and the settings that the page names."""
    from chdb.session import Session

    session: Any = Session()
    for setting in example.partition("SETTINGS")[2].split(","):
        session.query(f"SET {setting}")
    session.query("SET output_format_json_quote_64bit_integers = 0")
    session.query(f"CREATE VIEW events AS SELECT * FROM file('{fleet}/**/hour-*.parquet', 'Parquet')")
    for kind in KINDS.values():
        session.query(ddl.create_view(kind).rstrip(";"))

    def ask(sql: str) -> Answer:
        told = json.loads(str(session.query(sql, "JSONCompact")))
        return [column["name"] for column in told["meta"]], [[plain(value) for value in row] for row in told["data"]]

    yield ask
    session.close()


def duckdb(fleet: Path, sql: str) -> Answer:
    with open_inputs(sorted(map(str, fleet.rglob("hour-*.parquet")))).connection as connection:
        cursor = connection.execute(sql)
        rows = [[plain(value) for value in row] for row in cursor.fetchall()]
        return [column[0] for column in cursor.description or ()], rows


@pytest.mark.parametrize("name", PORTABLE)
def test_clickhouse_gives_the_same_rows(name: str, fleet: Path, clickhouse: Ask) -> None:
    sql = queries.load("postmortem", name).sql.rstrip().rstrip(";")
    assert clickhouse(sql) == duckdb(fleet, sql)


def test_the_example_of_the_page(fleet: Path, clickhouse: Ask, example: str) -> None:
    assert BUCKET in example
    _, rows = clickhouse(example.replace(BUCKET, f"file('{fleet}/**/hour-*.parquet', 'Parquet')"))
    wanted = duckdb(fleet, "SELECT worker, resource, count(*) FROM oom GROUP BY ALL")[1]
    assert sorted(rows) == sorted(wanted) != []
    assert "vllm/0" in {row[0] for row in rows}, "a worker's own name, and not as a path writes it"
