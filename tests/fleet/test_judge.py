"""A worker-hour is judged as the whole recording would be, and what is wrong with it is told."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from oomctl.analyzers.fleet.fingerprint import Fingerprint, fingerprint
from oomctl.analyzers.triage import survey
from oomctl.fleet.judge import analyzer, judge
from oomctl.fleet.store import Store
from oomctl.fleet.units import units
from oomctl.pipeline import triage_paths
from oomctl.schemas import fleet
from tests.fleet.made import Hour, export, record
from tests.scenarios.connected import connected
from tests.working_tree import ROOT

BEGIN = datetime(2026, 3, 11, 22, tzinfo=UTC)
EXAMPLE = ROOT / "examples" / "vllm-graph-capture.log"


def test_an_incident_is_told_by_its_own_hour_as_the_whole_recording_tells_it(tmp_path: Path) -> None:
    recording = record(tmp_path / "recording", "n", "w", {BEGIN: Hour("prefill_long_prompt", first_s=3_590)})
    export(recording, Store(str(tmp_path / "rec")))
    (whole,) = triage_paths([str(recording)]).incidents
    before, after = [judge(unit) for unit in units(str(tmp_path / "rec"))]
    assert [row["outcome"] for row in before] == ["clean"]
    (found,) = after
    assert (found["incident"], found["class"], found["cause"]) == (whole.id, whole.oom_class, whole.causes[0].cause)
    assert (found["confidence"], found["engine_version"], found["model"] is None) == (whole.confidence, "0.11.0", False)
    assert (found["node"], found["worker"], found["hour"]) == ("n", "w", BEGIN.replace(hour=23))
    assert set(found) <= {field.name for field in fleet.FINDINGS}


def test_a_log_is_a_unit_too(tmp_path: Path) -> None:
    (unit,) = units(str(EXAMPLE))
    (found,) = judge(unit)
    (whole,) = triage_paths([str(EXAMPLE)]).incidents
    assert (found["incident"], found["class"], found["worker"]) == (whole.id, "warm_up", str(EXAMPLE))
    assert (found["hour"], found["ts"]) == (None, None), "its lines name no year"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(400) + b"PAR1", bytes(range(256)) * 8])
def test_what_cannot_be_read_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "hour-02.parquet").write_bytes(content)
    (unit,) = units(str(tmp_path))
    (found,) = judge(unit)
    assert (found["outcome"], found["unit"]) == ("unreadable", f"{tmp_path}/hour-02.parquet")
    assert found["problem"] and "oomctl-" not in found["problem"], "the copy's name means nothing to anybody"


def test_hidden_files_and_findings_are_no_units(tmp_path: Path) -> None:
    for name in ("_context-02.parquet", ".x.log", "findings-0.parquet", "a.log", "_old/b.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert [unit.path for unit in units(str(tmp_path))] == ["a.log"]


@cache
def prints(scenario: str, seed: int, engine: str = "vllm") -> Fingerprint:
    with connected(scenario, seed=seed, engine=engine) as connection:
        return fingerprint(connection, survey(connection)[0][0])


def test_the_same_defect_with_other_figures_names_and_lines_is_the_same() -> None:
    first, second = prints("warm_up_capture", 1), prints("warm_up_capture", 2)
    assert first == second
    assert first.digest == second.digest
    assert (first.parts["class"], first.parts["engine"]) == ("warm_up", "vllm")
    assert all(frame.startswith("vllm/") and ":" in frame for frame in first.parts["frames"])


def test_another_defect_is_another() -> None:
    kinds = [prints("warm_up_capture", 1), prints("load_staging_copy", 1), prints("warm_up_capture", 1, "sglang")]
    assert len({each.digest for each in kinds}) == 3


def test_what_judges_has_a_version() -> None:
    version, _, digest = analyzer().partition("+")
    assert version and len(digest) == 12
