"""Benchmarks report in one shape, and a run of all of them can be compared with another."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks import compare
from benchmarks.cpu import BenchmarkError
from benchmarks.machine import ROOT, machine
from benchmarks.table import Result, show

PART = """
import sys
from benchmarks.cpu import BenchmarkError
from benchmarks.table import Result, show
def measure():
    yield Result("a ratio", 2.5, 3)
    yield Result("engine", None, note="there is none")
    {rest}
sys.exit(show(measure()))
"""


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (Result("a", 3, 3), "ok"),
        (Result("a", 3.1, 3), "missed"),
        (Result("a", 0.94, 0.95, at_least=True), "missed"),
        (Result("a", 0.95, 0.95, at_least=True), "ok"),
        (Result("a", 7), "told"),
        (Result("a", None, 3), "not run"),
    ],
)
def test_a_figure_knows_its_limit(result: Result, status: str) -> None:
    assert result.status == status


def test_a_table_fails_where_a_limit_is_missed_or_a_measurement_failed(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> Any:
        yield Result("a", 1, 2)
        raise BenchmarkError("it broke")

    assert show([Result("a", 1, 2), Result("b", None, 2)]) == 0
    assert show([Result("a", 3, 2)]) == 1
    assert show(failing()) == 1
    assert "it broke" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rest", "last"),
    [
        ("yield Result('late', 9, 3)", "missed"),
        ("raise BenchmarkError('no')", "not run"),
        ("raise SystemExit(0)", "not run"),
        ("", "not run"),
    ],
)
def test_all_parts_make_one_table_and_one_file(
    rest: str, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "part.py").write_text(PART.format(rest=rest))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setattr(bench, "PARTS", {"made": ["part"]})
    monkeypatch.setattr(sys, "argv", ["bench", "made", "-o", str(tmp_path / "run.json")])
    assert bench.main() == int(bool(rest))
    document = json.loads((tmp_path / "run.json").read_text())
    assert document["schema"] == bench.SCHEMA
    assert document["machine"]["cores"] >= 1 and document["machine"]["packages"]["duckdb"]
    assert [row["status"] for row in document["results"]][:2] == ["ok", "not run"]
    assert document["results"][-1]["status"] == last
    assert len(document["results"]) == 2 + bool(rest)
    assert "made      a ratio" in capsys.readouterr().out


def test_a_part_is_measured_again_into_an_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "part.py").write_text(PART.format(rest=""))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setattr(bench, "PARTS", {"made": ["part"]})
    run = tmp_path / "run.json"
    old = [{"part": part, **vars(Result(part, 1, 2)), "status": "ok"} for part in ("made", "other")]
    run.write_text(json.dumps({"schema": bench.SCHEMA, "machine": {"commit": "old"}, "results": old}))
    monkeypatch.setattr(sys, "argv", ["bench", "made", "-u", str(run)])
    assert bench.main() == 0
    document = json.loads(run.read_text())
    assert document["machine"] == {"commit": "old"}
    assert [(row["part"], row["name"], "machine" in row) for row in document["results"]] == [
        ("other", "other", False), ("made", "a ratio", True), ("made", "engine", True),
    ]  # fmt: skip
    assert set(compare.read(run)[1]) == {("other", "other"), ("made", "a ratio"), ("made", "engine")}


def test_two_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def written(name: str, *results: Result) -> str:
        rows = [{"part": "p", **vars(result), "status": result.status} for result in results]
        (tmp_path / name).write_text(json.dumps({"machine": machine(), "results": rows}))
        return str(tmp_path / name)

    old = written("a", Result("same", 2.0, 3), Result("worse", 2.0, 3), Result("went", 1), Result("off", None, 1))
    new = written("b", Result("same", 2.05, 3), Result("worse", 4.0, 3), Result("off", 0.5, 1), Result("came", 1))
    assert compare.main(old, new) == 1
    told = {words[1]: line for line in capsys.readouterr().out.splitlines() if (words := line.split()) and words[0] == "p"}
    assert told["same"].endswith("=")
    assert told["worse"].endswith("+100.0%  ok -> missed")
    assert told["went"].endswith("gone") and told["came"].endswith("new") and told["off"].endswith("not run -> ok")
    assert compare.main(old, old) == 0
    (tmp_path / "c").write_text("{}")
    with pytest.raises(SystemExit, match="no run of make bench"):
        compare.read(tmp_path / "c")
