"""A failure that the rings and the followed log both tell of: frozen once, one incident, with the evidence of both."""

import os
import re
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from oomctl.pipeline import triage_paths
from oomctl.schemas.verdict import Incident
from tests.recorder.scenario_rings import ScenarioRings
from tests.recorder.stand_in import Time, Worker, recorder, rows
from tests.scenarios import render_log
from tests.scenarios.catalogue import find

STAMP = re.compile(r"(?m)^(.{0,60}?)(\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d")
CASES = [
    ("load_staging_copy", "vllm"),
    ("warm_up_capture", "vllm"),
    ("prefill_long_prompt", "vllm"),
    ("prefill_long_prompt", "sglang"),
    ("decode_preemption_storm", "vllm"),
    ("decode_exhausted", "sglang"),
    ("fragmentation_same_shape", "vllm"),
    ("recovery_wake_up", "vllm"),
]


def now_in(text: str, hours: float, ago_s: float = 0) -> str:
    """A log as it would have been printed just now by a clock that is so many hours ahead."""
    moment = datetime.now(UTC) + timedelta(hours=hours) - timedelta(seconds=ago_s)

    def stamped(found: re.Match[str]) -> str:
        return found[1] + (f"{moment:%Y-}" if found[2] else "") + f"{moment:%m-%d %H:%M:%S}"

    return STAMP.sub(stamped, text)


def recorded(
    folder: Path, rings: str, log: str, engine: str = "vllm", before: str = ""
) -> tuple[list[Path], list[Incident]]:
    """(Incident files, incidents of the recording) of a scenario in the rings and a log that comes at once with it."""
    path, stands = folder / "worker.log", Time(real=True)
    path.write_text(before)
    written = ScenarioRings(folder / "rings", rings, engine, ranks=1, seed=3)
    beside = recorder(folder / "rec", folder / "rings", stands, os.getpid(), log=path)
    beside.round()
    with path.open("a") as file:
        file.write(log)
    for _ in range(6):
        beside.round()
    stands.now_s += 11
    beside.round()
    beside.close()
    written.close()
    return list((folder / "rec" / "incidents").iterdir()), triage_paths([str(folder / "rec")]).incidents


def sources(incident: Incident) -> set[str]:
    streams = {cite.stream for statement in incident.evidence for cite in statement.cites}
    return {"log" if stream.endswith(".log") else "ring" for stream in streams}


@pytest.mark.parametrize("hours", [0, 9])
@pytest.mark.parametrize(("scenario", "engine"), CASES)
def test_it_is_one_incident_in_one_file(tmp_path: Path, scenario: str, engine: str, hours: int) -> None:
    files, found = recorded(tmp_path, scenario, now_in(render_log(scenario, seed=3, engine=engine), hours), engine)
    assert len(files) == 1
    label = find(scenario).label
    conclusions = [(item.verdict, item.oom_class, item.resource) for item in found]
    assert conclusions == [(label["verdict"], label["oom_class"], label["resource"])]
    assert sources(found[0]) == {"log", "ring"}
    assert [item.id for item in triage_paths([str(files[0])]).incidents] == [found[0].id]


def test_a_log_without_times_is_joined_by_when_it_came(tmp_path: Path) -> None:
    log = re.sub(r"\d\d-\d\d \d\d:\d\d:\d\d ", "", render_log("warm_up_capture", seed=3))
    files, found = recorded(tmp_path, "warm_up_capture", log)
    assert (len(files), len(found)) == (1, 1)


def test_a_log_that_was_there_before_is_joined_up_to_its_zone(tmp_path: Path) -> None:
    log = now_in(render_log("warm_up_capture", seed=3), hours=-5)
    files, found = recorded(tmp_path, "warm_up_capture", "", before=log)
    assert len(files) == 1
    assert [sources(item) for item in found] == [{"log", "ring"}]


def test_an_earlier_failure_in_the_log_is_another(tmp_path: Path) -> None:
    before = now_in(render_log("warm_up_capture", seed=3), hours=0, ago_s=2 * 3600 + 400)
    _, found = recorded(tmp_path, "warm_up_capture", "", before=before)
    assert sorted(map(sorted, map(sources, found))) == [["log"], ["ring"]]


def test_failures_of_different_memory_are_two(tmp_path: Path) -> None:
    log = now_in(render_log("warm_up_capture", seed=3), hours=0)
    _, found = recorded(tmp_path, "decode_preemption_storm", log)
    assert {item.resource for item in found} == {"device", "kv_blocks"}


def test_what_others_say_of_a_killed_process_is_no_reason(tmp_path: Path) -> None:
    """GIVEN a process that is gone WHEN the log quotes an exception of another THEN it is no verdict on its end."""
    rings, log, stands = tmp_path / "rings", tmp_path / "worker.log", Time(real=True)
    log.write_text("")
    child = os.fork()
    if child == 0:
        worker = Worker(rings)
        worker.phase("loading", "weights_loaded", "kv_allocated", "ready")
        worker.step(1)
        time.sleep(60)
        os._exit(0)
    while not list(rings.glob("*.ring")):
        time.sleep(0.02)
    beside = recorder(tmp_path / "rec", rings, stands, child, log=log)
    beside.round()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    where = f"(EngineCore pid=7) ERROR {datetime.now(UTC):%m-%d %H:%M:%S} [core.py:1108] "
    lines = ["EngineCore encountered a fatal error.", "Traceback (most recent call last):",
             '  File "/srv/vllm/v1/engine/core.py", line 9, in run_busy_loop', "    self.step()",
             "RuntimeError: Executor failed."]  # fmt: skip
    lines.append("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above).")
    log.write_text("".join(f"{where}{line}\n" for line in lines))
    for _ in range(6):
        beside.round()
    beside.close()
    (found,) = triage_paths([str(tmp_path / "rec")]).incidents
    # Where the recorder could watch for a kill for memory, it saw none: then host memory is no guess either.
    looked = rows(tmp_path / "rec", "SELECT 1 FROM collector WHERE name IN ('kernel_log', 'kill_count') AND state = 'ok'")
    assert (found.verdict, found.resource) == (None, None if looked else "host")
    assert sources(found) == {"log", "ring"}
