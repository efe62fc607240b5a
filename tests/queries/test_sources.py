"""Every query runs on incidents from every source, and gives rows, or says what was not recorded, or that nothing was."""

import os
from pathlib import Path

import pytest

from oomctl import queries
from oomctl.cli.render.rows import rows_csv
from oomctl.queries.needs import Need, lacking
from tests.cli.run import oomctl
from tests.queries.fixtures import Fixture, database

SOURCES = {
    "log": Fixture("decode_exhausted", "sglang", ranks=2),
    "recording": Fixture("recording"),
    "snapshot": Fixture("snapshot"),
    "replay": Fixture("replay"),
}
KEPT = Path(__file__).parent / "sources.csv"


def answered(name: str, fixture: Fixture) -> str:
    """What a query answers on a fixture: rows, nothing, or who would have told."""
    connection = database(fixture)
    query = queries.load("postmortem", name)
    if missing := lacking(connection, query.needs):
        return f"needs {missing[0].collector}"
    rows = len(connection.execute(query.sql, query.bound()).fetchall())
    return f"{rows} rows" if rows else "nothing"


def test_every_source_answers_as_kept() -> None:
    names = queries.names("postmortem")
    found = "".join(
        rows_csv(
            ["query", *SOURCES], [[name, *(answered(name, fixture) for fixture in SOURCES.values())] for name in names]
        )
    )
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        KEPT.write_bytes(found.encode())
    assert found == KEPT.read_bytes().decode()


@pytest.mark.parametrize("name", queries.names("postmortem"))
def test_an_empty_table_is_never_an_error(name: str) -> None:
    query = queries.load("postmortem", name)
    assert database(Fixture("empty")).execute(query.sql, query.bound()).fetchall() == []


def test_the_command_says_what_was_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("INFO 03-11 02:42:11 [api_server.py:1044] vLLM API server version 0.9.1\n")
    said = "not recorded: needs kv_events; no row has kv_block.op"
    ran = oomctl("query", "a.log", "evicted_then_recomputed", cwd=tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, f"{said}\n", "")
    ran = oomctl("query", "a.log", "evicted_then_recomputed", "--format", "csv", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, f"oomctl: {said}\n")
    assert ran.out.startswith("worker,medium,minute_ts,") and ran.out.count("\n") == 1
    ran = oomctl("query", "a.log", "restart_changes", "--json", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "[]\n") and ran.err.startswith("oomctl: restart_changes: no rows: ")
    listed = oomctl("query", "a.log", "--format", "csv", cwd=tmp_path).out.splitlines()
    assert "heap_pools," in "".join(listed) and any(line.endswith("an allocator snapshot") for line in listed)


def test_parameters_are_options(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("INFO 03-11 02:42:11 [api_server.py:1044] vLLM API server version 0.9.1\n")
    ran = oomctl("query", "a.log", "recorded", "--at", "2026-01-01", cwd=tmp_path)
    ran.assert_fails(2, "has no parameter 'at'")
    ran = oomctl("query", "a.log", "leak_slope", "--at", "2026-01-01", "--window-s", "60", "--format", "json", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "[]\n")


def test_every_parameter_has_an_option() -> None:
    shown = oomctl("query", "--help").out
    for name in queries.names("postmortem"):
        for parameter in queries.load("postmortem", name).parameters:
            assert f"--{parameter.name.replace('_', '-')} " in shown, name


def test_a_need_that_cannot_be_read_is_an_error() -> None:
    for text in ("kv_pool", "kv_pool: ", "kv pool.x: agent", ""):
        with pytest.raises(ValueError, match="is not `KIND"):
            Need.parse(text)
