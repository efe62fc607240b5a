"""No statement, whatever its spelling, writes, attaches, copies, installs, or reads outside the incident."""

import os
import time
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomctl import queries
from oomctl.cli import sql as runner
from oomctl.cli.screen import REFUSED_FUNCTIONS
from oomctl.schemas import storage
from oomctl.schemas.errors import OomctlError
from tests.cli.recordings import rows
from tests.cli.run import oomctl

SECRET = "token-that-no-answer-may-hold"

READS = (
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_csv_auto('{secret}', header = false)",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT content FROM read_blob('{secret}')",
    "SELECT * FROM read_json('{secret}', format = 'unstructured')",
    "SELECT * FROM read_json_auto('{secret}')",
    "SELECT * FROM read_json_objects('{secret}')",
    "SELECT * FROM read_ndjson('{secret}')",
    "SELECT * FROM read_parquet('{parquet}')",
    "SELECT * FROM parquet_scan('{parquet}')",
    "SELECT * FROM parquet_metadata('{parquet}')",
    "SELECT * FROM parquet_schema('{parquet}')",
    "SELECT * FROM parquet_kv_metadata('{parquet}')",
    "SELECT * FROM parquet_file_metadata('{parquet}')",
    "SELECT * FROM read_duckdb('{parquet}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM '{parquet}'",
    'SELECT * FROM "{parquet}"',
    "FROM '{secret}'",
    "TABLE '{secret}'",
    "DESCRIBE SELECT * FROM '{secret}'",
    "SUMMARIZE FROM read_csv('{secret}')",
    "SELECT (SELECT max(content) FROM read_text('{secret}'))",
    "SELECT 1 WHERE EXISTS (FROM read_text('{secret}'))",
    "WITH t AS (SELECT * FROM read_text('{secret}')) SELECT * FROM t",
    "WITH RECURSIVE t AS (SELECT content FROM read_text('{secret}') UNION ALL SELECT 'x' FROM t WHERE false) FROM t",
    "SELECT 1 UNION ALL SELECT length(content) FROM read_text('{secret}')",
    "SELECT * FROM log, LATERAL (SELECT content FROM read_text('{secret}')) AS x",
    "SELECT * FROM log ASOF JOIN read_csv('{secret}') AS x ON log.seq >= x.seq",
    "PIVOT (FROM read_csv('{secret}')) ON column0",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "SELECT * FROM query_table('{secret}')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "PRAGMA json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "/* a */ SELECT/**/content/**/FROM--\nread_text/* ' */('{secret}')",
    "sElEcT * fRoM ReAd_TeXt('{secret}')",
    "SELECT * FROM \"read_text\"('{secret}')",
    "SELECT * FROM main.read_text('{secret}')",
    "SELECT * FROM system.main.read_text('{secret}')",
    "SELECT\u00a0*\u2003FROM\u3000read_text('{secret}')",
    "SELECT * FROM read_text($${secret}$$)",
    "SELECT * FROM read_text(E'\\x2f' || '{secret}')",
    "SELECT * FROM read_text(['{secret}'])",
    "SELECT * FROM read_text('file://{secret}')",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x')",
    "SELECT * FROM 'https://127.0.0.1:9/x.parquet'",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "SELECT * FROM sqlite_scan('{secret}', 't')",
    "SELECT * FROM postgres_scan('host=127.0.0.1', 'public', 't')",
    "SELECT * FROM iceberg_scan('{folder}')",
    "SELECT * FROM st_read('{secret}')",
)
SETTINGS = (
    "SELECT current_setting('temp_directory')",
    "SELECT system.main.current_setting('temp_directory')",
    "SELECT getenv('OOMCTL_CANARY')",
    "SELECT getvariable('x')",
    "SELECT * FROM duckdb_settings()",
    "FROM duckdb_secrets()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_databases",
    "SELECT * FROM pg_catalog.pg_settings",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM duckdb_logs",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM pragma_database_size()",
    "SHOW DATABASES",
    "SHOW ALL TABLES",
    "SHOW TABLES",
    "SELECT current_query()",
    "SELECT sleep_ms(60000)",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM python_map_function(1, 2)",
    "SELECT * FROM seq_scan(1)",
    "SELECT * FROM enable_logging()",
    "CALL enable_logging()",
    "SELECT write_log('x')",
    "SELECT * FROM enable_profiling('json')",
    "SELECT setseed(0.5)",
    "SELECT * FROM checkpoint()",
)
ACTS = (
    "ATTACH '{target}' AS out",
    "ATTACH ':memory:' AS out",
    "ATTACH IF NOT EXISTS '{target}' (TYPE sqlite)",
    "DETACH oomctl",
    "USE memory",
    "COPY log TO '{target}'",
    "COPY (SELECT 1) TO '{target}' (FORMAT parquet)",
    "COPY log FROM '{secret}'",
    "COPY FROM DATABASE oomctl TO memory",
    "WITH a AS (COPY log TO '{target}') SELECT 1",
    "EXPORT DATABASE '{target}'",
    "IMPORT DATABASE '{folder}'",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs FROM community",
    "INSTALL '{target}'",
    "LOAD httpfs",
    "LOAD '{secret}'",
    "UPDATE EXTENSIONS",
    "CREATE TABLE t AS SELECT 1",
    "CREATE OR REPLACE VIEW log AS SELECT 1",
    "CREATE TEMP TABLE t (a INT)",
    "CREATE MACRO m() AS 1",
    "CREATE SECRET s (TYPE s3)",
    "CREATE SEQUENCE q",
    "CREATE TYPE mood AS ENUM ('x')",
    "CREATE SCHEMA s",
    "DROP VIEW log",
    "DROP TABLE stored.log",
    "ALTER TABLE stored.log ADD COLUMN x INT",
    "COMMENT ON TABLE stored.log IS 'x'",
    "INSERT INTO stored.log (stream, seq) VALUES ('x', 1)",
    "WITH a AS (INSERT INTO stored.log (seq) VALUES (99) RETURNING seq) SELECT * FROM a",
    "WITH a AS (DELETE FROM stored.log RETURNING seq) SELECT * FROM a",
    "WITH a AS (UPDATE stored.log SET seq = 9 RETURNING seq) SELECT * FROM a",
    "SELECT * FROM (WITH a AS (DELETE FROM stored.log RETURNING seq) SELECT * FROM a)",
    "UPDATE stored.log SET text = 'x'",
    "DELETE FROM stored.log",
    "TRUNCATE stored.log",
    "MERGE INTO stored.log USING (SELECT 1 AS one) ON true WHEN MATCHED THEN DELETE",
    "SET enable_external_access = true",
    "SET GLOBAL memory_limit = '100GB'",
    "RESET memory_limit",
    "SET VARIABLE x = 1",
    "SET SESSION threads = 99",
    "PRAGMA threads = 99",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "PRAGMA version",
    "CALL pragma_version()",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "EXPLAIN ANALYZE SELECT 1",
    "SELECT nextval('q')",
    "SELECT 1; DROP TABLE stored.log",
    "COMMIT; DELETE FROM stored.log",
    "SELECT 1 /* ; */; ATTACH '{target}'",
    ";;ATTACH '{target}'",
    "-- a comment\nCOPY log TO '{target}'",
    "SELECT 1 AS \"; COPY log TO '{target}'\"; COPY log TO '{target}'",
    "",
    "SELECT",
    "\x00SELECT 1",
)
ATTEMPTS = READS + SETTINGS + ACTS


class Walled:
    """A session in a folder, and what must not change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = {
            "secret": str(folder / "secret.csv"), "parquet": str(folder / "other.parquet"), "folder": str(folder),
            "target": str(folder / "written"),
        }  # fmt: skip
        (folder / "secret.csv").write_text(f"seq\n{SECRET}\n")
        self.connection = storage.connect()
        storage.load_rows(self.connection, rows("a.log"))
        storage.write_parquet(self.connection, folder / "other.parquet", SECRET)
        queries.install(self.connection)
        self.session = runner.Session(self.connection, 20)
        self.before = self.state()

    def state(self) -> Any:
        """The incident, the databases, the settings and the folder."""
        asked = (
            "SELECT * FROM stored.log ORDER BY seq",
            "SELECT database_name, table_name, column_count, estimated_size FROM duckdb_tables() ORDER BY ALL",
            "SELECT database_name, count(*), max(view_oid) FROM duckdb_views() GROUP BY ALL ORDER BY ALL",
            "SELECT database_name, path, readonly, current_schema() FROM duckdb_databases() ORDER BY ALL",
            "SELECT name, value FROM duckdb_settings() ORDER BY ALL",
        )
        return [
            *(self.connection.execute(sql).fetchall() for sql in asked),
            sorted(path.name for path in self.folder.iterdir()),
        ]

    def attempt(self, sql: str) -> list[list[Any]]:
        """Its rows.

        Raises:
            OomctlError: As it should.
        """
        with self.session.run(sql) as result:
            return list(result.rows(100))


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walled]:
    folder = tmp_path_factory.mktemp("walled")
    made = Walled(folder)
    os.environ["OOMCTL_CANARY"] = SECRET
    yield made
    made.connection.close()
    del os.environ["OOMCTL_CANARY"]


def test_there_are_enough_attempts() -> None:
    assert len(set(ATTEMPTS)) == len(ATTEMPTS) >= 60


@pytest.mark.parametrize("sql", ATTEMPTS)
def test_refused(walled: Walled, sql: str) -> None:
    sql = sql.replace("{", "{{").replace("}", "}}") if "{" not in sql else sql.format(**walled.names)
    with pytest.raises(OomctlError) as caught:
        walled.attempt(sql)
    assert caught.value.exit_code == 2
    assert SECRET not in str(caught.value.what)
    assert walled.state() == walled.before


@pytest.mark.parametrize("sql", [sql for sql in READS if "execute_serialized" not in sql])
def test_the_inner_walls_hold_alone(walled: Walled, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "screen", lambda connection, sql: None)
    with pytest.raises(OomctlError):
        walled.attempt(sql.format(**walled.names))
    assert walled.state() == walled.before


@pytest.mark.parametrize("sql", [sql for sql in ACTS if sql.startswith("WITH") or "(WITH" in sql])
def test_a_transaction_that_only_reads_holds_alone(walled: Walled, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "screen", lambda connection, sql: None)
    with pytest.raises(OomctlError):
        walled.attempt(sql.format(**walled.names))
    assert walled.state() == walled.before


ALLOWED = (
    "SELECT count(*) FROM log",
    "FROM events LIMIT 1",
    "WITH a AS (SELECT 1 AS x) SELECT * FROM a",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r",
    "SELECT * FROM range(3), unnest([1, 2])",
    "DESCRIBE log",
    "SUMMARIZE log",
    "SELECT text ILIKE '%x%', regexp_matches(text, 'a'), 'read_csv(1)' FROM log -- COPY",
    "SELECT quantile_cont(seq, 0.5), list(seq ORDER BY seq), max_by(text, seq) FROM log",
    "SELECT * FROM log ASOF JOIN log AS l ON log.seq >= l.seq",
    "SELECT lag(seq) OVER (ORDER BY seq), count(*) FILTER (seq > 1) OVER () FROM log QUALIFY row_number() OVER () = 1",
    "SELECT [x + 1 FOR x IN [1, 2]], {'a': 1}.a, map {'k': 1}, INTERVAL 1 DAY, DATE '2020-01-01'",
    "(SELECT 1) UNION (SELECT 2) ORDER BY 1 LIMIT 1;",
    "VALUES (1)",
    "SELECT * FROM main.log, oomctl.stored.log AS l LIMIT 1",
    "SELECT * FROM failure",
)


@pytest.mark.parametrize("sql", ALLOWED)
def test_questions_are_answered(walled: Walled, sql: str) -> None:
    walled.attempt(sql)


@pytest.mark.parametrize("name", queries.names("postmortem"))
def test_what_we_ask_ourselves_is_allowed(walled: Walled, name: str) -> None:
    query = queries.load("postmortem", name)
    with walled.session.run(query.sql, query.bound()) as result:
        list(result.rows(1))


HARMLESS = {"error", "random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"}


def test_every_function_that_acts_is_refused(walled: Walled) -> None:
    """Of the DuckDB that is installed: one that a later version adds fails here first."""
    found = walled.connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE has_side_effects AND function_type <> 'table'"
    ).fetchall()
    assert {name for (name,) in found} - REFUSED_FUNCTIONS == HARMLESS


GAPS = st.sampled_from([" ", "\n", "\t", "/**/", "/* ' */", " -- x\n", "\u00a0", "  "])


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """An attempt in other words: other case, other gaps, inside or behind something harmless."""
    attempt = draw(st.sampled_from(ATTEMPTS))
    words = attempt.split(" ")
    joined = words[0] + "".join(draw(GAPS) + word for word in words[1:])
    if "'" not in joined or draw(st.booleans()):
        flips = draw(st.integers(0, 2**16))
        joined = "".join(
            char.swapcase() if char.isalpha() and (flips >> (n % 16)) & 1 and "{" not in attempt else char
            for n, char in enumerate(joined)
        )
    around = draw(
        st.sampled_from(
            ["{}", "({})", " {} ;", "SELECT * FROM ({})", "SELECT * FROM ({}) AS x", "WITH a AS ({}) SELECT * FROM a",
             "SELECT 1 UNION ALL ({})", "SELECT 1; {}", "{}; SELECT 1", "EXPLAIN {}", "DESCRIBE {}", "SELECT ({})",
             "WITH a AS MATERIALIZED ({}) FROM a, log", "SELECT 1 WHERE 1 IN ({})", "FROM query($$ {} $$)", "/* {} */ {}"]
        )
    )  # fmt: skip
    return around.replace("{}", joined)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=disguised())
def test_no_disguise_helps(walled: Walled, sql: str) -> None:
    for name, path in walled.names.items():
        sql = sql.replace(f"{{{name}}}", path)
    try:
        answer = walled.attempt(sql)
    except OomctlError as error:
        assert error.exit_code in (2, 4)
    else:
        assert SECRET not in str(answer)
    assert walled.state() == walled.before


def test_time_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("INFO x\n")
    endless = "SELECT count(*) FROM range(1000000000000) AS a, range(1000)"
    ran = oomctl("query", "a.log", "-c", endless, "--timeout", "0.2", cwd=tmp_path)
    ran.assert_fails(4, "stopped after 0.2 s", "--timeout")


def test_a_slow_reader_is_not_a_slow_query(walled: Walled) -> None:
    """Who pages through the rows for longer than the limit loses none of them."""
    session = copy(walled.session)
    session._seconds = 2.0
    with session.run("SELECT n FROM range(20000) AS r(n)") as result:
        rows = result.rows(None)
        next(rows)
        time.sleep(2.2)
        assert len(list(rows)) == 19_999


@pytest.mark.parametrize("sql", ["SELECT repeat('x', 3000000000)", "SELECT list(n) FROM range(1000000000) AS r(n)"])
def test_memory_is_bounded(walled: Walled, sql: str) -> None:
    with pytest.raises(OomctlError) as caught:
        walled.attempt(sql)
    assert caught.value.exit_code == 4
