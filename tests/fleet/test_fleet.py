"""A small fleet through the real command: what was planted is found and nothing else, once, whatever dies or runs again."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from oomctl.fleet import engines
from oomctl.fleet.findings import Findings
from oomctl.fleet.judge import Finding
from oomctl.fleet.run import run
from oomctl.fleet.units import Unit, units
from tests.cli.run import oomctl
from tests.fleet.dying import clean, dies
from tests.fleet.made import Hour, small_fleet

PLANTED = {
    (0, 1): Hour("warm_up_capture"),
    (1, 2): Hour("load_staging_copy", engine="sglang", version="0.5.4"),
    (2, 0): Hour("warm_up_capture", seed=2),
}
CLASSES = {"w0": "warm_up", "w1": "load_time", "w2": "warm_up"}
WORKERS, HOURS = 3, 3


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    small_fleet(folder, WORKERS, HOURS, PLANTED)
    (folder / "rec" / "date=2026-03-11" / "node=node-0" / "worker=w0" / "hour-19.parquet").write_bytes(b"PAR1 torn")
    return folder


def test_what_was_planted_is_found_and_nothing_else(fleet: Path) -> None:
    command = ("triage", f"{fleet}/rec/**", "--engine", "local", "--jobs", "1", "--findings", f"{fleet}/findings")
    first = oomctl(*command, "--json")
    assert first.code == 0, first.err
    assert f"judged {WORKERS * HOURS + 1} of {WORKERS * HOURS + 1} units; 0 were known" in first.err
    told = json.loads(first.out)
    assert (told["worker_hours"], told["unreadable"], told["incidents"]) == (WORKERS * HOURS, 1, len(PLANTED))
    assert [(one["incidents"], one["workers"], one["nodes"]) for one in told["repeats"]] == [(2, 2, 2)]
    table = f"read_parquet('{fleet}/findings/**/*.parquet', hive_partitioning = true)"
    rows = duckdb.execute(f"SELECT worker, class FROM {table} WHERE outcome = 'incident' ORDER BY worker").fetchall()
    assert dict(rows) == CLASSES and len(rows) == len(CLASSES)
    dates = duckdb.execute(f"SELECT DISTINCT date::VARCHAR FROM {table} ORDER BY ALL").fetchall()
    assert dates == [("2026-03-11",), ("2026-03-12",)]
    again = oomctl(*command, "--json", "--fail-on", "warm_up")
    assert f"judged 1 of {WORKERS * HOURS + 1} units" in again.err, "what could not be read is tried again"
    assert (again.code, again.out) == (1, first.out)
    assert oomctl("fleet", f"{fleet}/findings", "--json").out == first.out
    lines = [json.loads(line) for line in oomctl("fleet", f"{fleet}/findings", "--format", "jsonl").out.splitlines()]
    assert [line["outcome"] for line in lines].count("incident") == len(PLANTED)


def here(found: Iterable[Unit]) -> engines.Judged:
    for unit in found:
        yield unit, clean(unit)


def outcomes(findings: Findings) -> list[tuple[str, str]]:
    return sorted((row["unit"], row["outcome"]) for table in findings.tables() for row in table.to_pylist())


def test_a_run_that_ends_halfway_is_resumed(fleet: Path, tmp_path: Path) -> None:
    found = units(f"{fleet}/rec")

    def ends(waiting: Iterable[Unit]) -> engines.Judged:
        for n, judged in enumerate(here(waiting)):
            if n == 4:
                raise KeyboardInterrupt
            yield judged

    with pytest.raises(KeyboardInterrupt):
        run(found, Findings(str(tmp_path)), ends, lambda rows: None)
    kept: list[Finding] = []
    done = run(found, Findings(str(tmp_path)), here, kept.extend)
    assert (done.units, done.judged) == (len(found), len(found) - 4)
    assert sorted(row["unit"] for row in kept) == sorted(unit.name for unit in found)
    assert outcomes(Findings(str(tmp_path))) == sorted((unit.name, "clean") for unit in found)


def test_a_unit_that_changed_is_judged_again_and_stands_once(fleet: Path, tmp_path: Path) -> None:
    found = units(f"{fleet}/rec")[:5]
    run(found, Findings(str(tmp_path)), here, lambda rows: None)
    changed = [replace(found[0], identity="another"), *found[1:]]
    assert run(changed, Findings(str(tmp_path)), here, lambda rows: None).judged == 1
    assert len(outcomes(Findings(str(tmp_path)))) == 5


def test_another_analyzer_judges_again(fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = units(f"{fleet}/rec")[:3]
    run(found, Findings(str(tmp_path)), here, lambda rows: None)
    monkeypatch.setattr("oomctl.fleet.run.analyzer", lambda: "1.0.0+other")
    monkeypatch.setattr("tests.fleet.dying.analyzer", lambda: "1.0.0+other")
    assert run(found, Findings(str(tmp_path)), here, lambda rows: None).judged == 3


def test_a_unit_whose_process_dies_is_tried_again_and_costs_no_other(tmp_path: Path) -> None:
    names = ["a", "once", "b", "poison", "c"]
    judged = dict(engines.local((Unit(str(tmp_path), name, None, "1") for name in names), dies, 2))
    assert {unit.path: rows[0]["outcome"] for unit, rows in judged.items()} == {
        "a": "clean", "once": "clean", "b": "clean", "poison": "unreadable", "c": "clean",
    }  # fmt: skip


def test_usage() -> None:
    oomctl("triage", "x", "--address", "auto").assert_fails(2, "--engine local or ray")
    oomctl("triage", "ftp2://x/**", "--last").assert_fails(2, "--last")
    oomctl("triage", "ftp2://x/**").assert_fails(2, "cannot open")
    oomctl("fleet", "nowhere").assert_fails(3, "no findings")


def test_what_waits_is_taken_as_processes_become_free() -> None:
    taken: list[str] = []

    def waiting() -> Iterator[Unit]:
        for n in range(100):
            taken.append(str(n))
            yield Unit("/", str(n), None, "1")

    judged = engines.local(waiting(), clean, 1)
    next(judged)
    assert len(taken) <= 2 * engines.AHEAD
    judged.close()  # type: ignore[attr-defined]
