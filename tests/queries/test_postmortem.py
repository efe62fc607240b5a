"""`oomctl query FILE NAME`: the named questions that an engineer on call asks, through the real command."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from oomctl import queries
from oomctl.schemas import storage
from oomctl.schemas.rows import make_row
from tests.cli.run import oomctl
from tests.scenarios import catalogue, render_log
from tests.scenarios.connected import connected

OF_FAILURES = ("evidence_lines", "growth_before_failure", "memory_at_failure", "phases")
"""Asked of logs above all; the others are tried on a recording (test_values.py, test_sources.py)."""
COMMON = {"stream": "s", "worker": "w", "incarnation": "1"}


def asked(folder: Path, scenario: str, name: str, **more: Any) -> list[dict[str, Any]]:
    (folder / "a.log").write_text(render_log(scenario, seed=1, **more))
    ran = oomctl("query", "a.log", name, "--json", cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def test_evidence_lines_are_the_files_own(tmp_path: Path) -> None:
    rows = asked(tmp_path, "warm_up_capture", "evidence_lines", ranks=2)
    lines = (tmp_path / "a.log").read_text().split("\n")
    numbers = []
    for row in rows:
        file, _, line = row["place"].rpartition(":")
        assert file == "a.log"
        assert lines[int(line) - 1] == row["text"]
        numbers.append(int(line))
    assert numbers == sorted(set(numbers))
    assert sum(row["role"] == "failure" for row in rows) == 2
    assert any(row["role"] == "frame" and row["gave"] == "warm_up: capture" for row in rows)


def test_phases_follow_each_other(tmp_path: Path) -> None:
    rows = asked(tmp_path, "recovery_orphan_load", "phases")
    assert {row["incarnation"] for row in rows} == {"1", "2"}
    for earlier, later in itertools.pairwise(rows):
        assert earlier["first_line"] <= earlier["last_line"] < later["first_line"]
    assert [row["phase"] for row in rows if row["incarnation"] == "2"][-1] == "loading"


def test_memory_at_failure_is_corrected(tmp_path: Path) -> None:
    rows = asked(tmp_path, "warm_up_capture", "memory_at_failure")
    parts = {row["part"]: row for row in rows}
    found = {name: row["bytes"] for name, row in parts.items()}
    assert found["own_process"] == found["framework"] + found["non_framework"]
    assert found["framework"] == found["allocated"] + found["private_pool_free"] + found["cached_free"]
    assert found["short"] == found["requested"] - found["free"] > 0
    assert parts["weights"]["source_line"] < parts["requested"]["line"] == parts["requested"]["source_line"]
    assert parts["total"]["gib"] == 80.0


def test_growth_shows_what_ran_full(tmp_path: Path) -> None:
    rows = {row["metric"]: row for row in asked(tmp_path, "decode_silent_stall", "growth_before_failure")}
    usage = rows["kv_usage_ratio"]
    assert usage["first_value"] < 0.9 <= usage["max_value"]
    assert usage["first_line"] < usage["max_line"] <= usage["last_line"] <= usage["line"]
    assert rows["waiting_requests"]["grew"] > 0


def test_growth_counts_the_dumped_batch_last(tmp_path: Path) -> None:
    rows = {row["metric"]: row for row in asked(tmp_path, "prefill_long_prompt", "growth_before_failure")}
    batch = rows["batch_prompt_tokens"]
    assert batch["last_value"] == batch["max_value"] >= 16_384
    assert batch["last_line"] > batch["line"]


def test_a_healthy_server_has_no_failure_to_show() -> None:
    connection = connected("healthy_busy")
    for name in OF_FAILURES:
        assert bool(connection.execute(queries.load("postmortem", name).sql).fetchall()) is (name == "phases")


@pytest.mark.parametrize("scenario", [scenario.name for scenario in catalogue()])
def test_every_scenario_can_be_asked(scenario: str) -> None:
    connection = connected(scenario, ranks=2)
    rows = {name: connection.execute(queries.load("postmortem", name).sql).fetchall() for name in OF_FAILURES}
    counted = connection.execute(
        "SELECT count(*), count(*) FILTER (seq > reported) FROM failure LEFT JOIN (SELECT incarnation, min(seq) AS "
        "reported FROM throughput GROUP BY incarnation) USING (incarnation) WHERE what IN ('oom', 'refusal')"
    ).fetchone()
    assert counted is not None
    failed, served = counted
    assert rows["evidence_lines"] or not failed
    assert rows["growth_before_failure"] or not served


def test_rows_without_lines_and_times_are_shown_too() -> None:
    connection = storage.connect()
    queries.install(connection)
    rows = [
        make_row("lifecycle", {"phase": "serving"}, COMMON | {"seq": 1}),
        make_row("throughput", {"running_requests": 3}, COMMON | {"seq": 2}),
        make_row("throughput", {"running_requests": 9}, COMMON | {"seq": 3}),
        make_row("oom", {"resource": "device", "message": "full", "requested_bytes": 5}, COMMON | {"seq": 4}),
    ]
    storage.load_rows(connection, rows)
    answers = {name: connection.execute(queries.load("postmortem", name).sql).fetchall() for name in OF_FAILURES}
    assert [row[-1] for row in answers["evidence_lines"]] == ["full"]
    assert answers["growth_before_failure"][0][6:12] == ("running_requests", 2, 3.0, 9.0, 9.0, 6.0)
    assert [row[7:10] for row in answers["memory_at_failure"]] == [("requested", None, 5)]
    assert [row[4] for row in answers["phases"]] == ["serving"]


def test_user_sql_can_use_the_derived_views(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(render_log("warm_up_capture", seed=1))
    sql = "SELECT count(*) AS n FROM oom_figures JOIN failure USING (stream, seq) WHERE short_bytes > 0"
    ran = oomctl("query", "a.log", "-c", sql, "--format", "csv", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "n\n1\n"), ran.err
    ran = oomctl(
        "query", "a.log", "-c", "SELECT DISTINCT phase FROM phase_marker ORDER BY 1", "--format", "csv", cwd=tmp_path
    )
    assert ran.out.split() == ["phase", "any", "load_time", "recovery", "serving", "warm_up"]
