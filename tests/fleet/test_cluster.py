"""A fleet in a bucket, judged by Ray tasks and by local processes: the same findings."""

import json
from pathlib import Path

import pytest

from oomctl.fleet import engines
from oomctl.fleet.findings import Findings
from oomctl.fleet.judge import Finding
from oomctl.fleet.store import Store
from oomctl.fleet.units import Unit, units
from tests.cli.run import oomctl
from tests.fleet.dying import dies
from tests.fleet.made import BEGIN, Hour, export, record

pytestmark = pytest.mark.fleet
PLANTED = {"w0": Hour("warm_up_capture"), "w1": Hour("load_staging_copy"), "w2": Hour()}


def rows(root: str) -> list[Finding]:
    return sorted(
        (row for table in Findings(root).tables() for row in table.to_pylist()),
        key=lambda row: (row["unit"], row["incident"]),
    )


def test_ray_and_local_processes_find_the_same_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    for worker, hour in PLANTED.items():
        recording = record(tmp_path / worker, "n", worker, {BEGIN: hour})
        ran = oomctl("export", str(recording), "--partition", "-o", f"{bucket}/rec")
        assert "wrote 1 hour of 1 worker, 0 more" in ran.err, ran.err
    assert export(tmp_path / "w0", Store(f"{bucket}/rec")).unchanged == 1
    assert [unit.place is not None for unit in units(f"{bucket}/rec/date=*/**")] == [True] * 3
    local = oomctl("triage", f"{bucket}/rec/**", "--findings", f"{bucket}/local", "--json")
    ray = oomctl("triage", f"{bucket}/rec/**", "--engine", "ray", "--jobs", "2", "--findings", f"{bucket}/ray", "--json")
    assert local.code == ray.code == 0, local.err + ray.err
    assert "judged 3 of 3 units" in ray.err
    assert json.loads(local.out)["incidents"] == 2
    assert local.out == ray.out
    assert rows(f"{bucket}/local") == rows(f"{bucket}/ray")
    again = oomctl("triage", f"{bucket}/rec/**", "--engine", "ray", "--findings", f"{bucket}/local", "--json")
    assert "judged 0 of 3 units" in again.err and again.out == local.out


def test_a_ray_task_that_is_killed_is_tried_again_and_costs_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["a", "once", "b", "poison", "c"]
    judged = dict(engines.ray((Unit(str(tmp_path), name, None, "1") for name in names), dies, jobs=2))
    assert {unit.path: found[0]["outcome"] for unit, found in judged.items()} == {
        "a": "clean", "once": "clean", "b": "clean", "poison": "unreadable", "c": "clean",
    }  # fmt: skip
    assert capsys.readouterr().out == ""


def test_a_bucket_that_is_not_there(bucket: str) -> None:
    oomctl("triage", "s3://nobody-has-this/rec/**").assert_fails(3, "s3://nobody-has-this")
