"""Incidents recorded by an agent alone, frozen by the recorder, triaged from the incident file: the class must be right."""

import os
from pathlib import Path

import pytest

from oomctl.pipeline import triage_paths
from oomctl.schemas.verdict import Incident
from tests.recorder.scenario_rings import ScenarioRings
from tests.recorder.stand_in import Time, recorder
from tests.scenarios.catalogue import find

CASES = [
    ("load_staging_copy", "vllm"),
    ("load_weights_too_big", "sglang"),
    ("warm_up_capture", "vllm"),
    ("warm_up_capture", "sglang"),
    ("warm_up_lazy_autotune", "vllm"),
    ("prefill_long_prompt", "vllm"),
    ("prefill_long_prompt", "sglang"),
    ("decode_preemption_storm", "vllm"),
    ("decode_silent_stall", "vllm"),
    ("decode_retractions", "sglang"),
    ("decode_exhausted", "sglang"),
    ("fragmentation_same_shape", "vllm"),
    ("fragmentation_after_larger", "sglang"),
    ("recovery_wake_up", "vllm"),
    ("recovery_update_weights", "sglang"),
]


def frozen(folder: Path, scenario: str, engine: str, ranks: int = 1) -> list[Incident]:
    """What triage says of the last incident file (a hard one after a soft one), and of the recording: the same."""
    written = ScenarioRings(folder / "rings", scenario, engine, ranks)
    time = Time()
    beside = recorder(folder / "rec", folder / "rings", time, os.getpid())
    beside.round()
    time.now_s += 11
    beside.round()
    beside.close()
    written.close()
    files = sorted((folder / "rec" / "incidents").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert 1 <= len(files) <= 2
    found = triage_paths([str(files[-1])]).incidents
    assert [item.id for item in triage_paths([str(folder / "rec")]).incidents] == [item.id for item in found]
    return found


@pytest.mark.parametrize(("scenario", "engine"), CASES)
def test_the_class_of_an_incident_without_a_log(tmp_path: Path, scenario: str, engine: str) -> None:
    label = find(scenario).label
    found = frozen(tmp_path, scenario, engine, ranks=2)[0]
    assert (found.verdict, found.oom_class, found.resource) == (label["verdict"], label["oom_class"], label["resource"])
    assert found.evidence
    for statement in found.evidence:
        for citation in statement.cites:
            assert citation.stream.startswith("node1/"), "rows are cited as they were recorded"


def test_every_class_is_shown() -> None:
    shown = {find(scenario).label["oom_class"] for scenario, _ in CASES}
    assert shown == {"load_time", "warm_up", "prefill_spike", "decode_growth", "fragmentation", "recovery"}
