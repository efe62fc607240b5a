"""Experiments through their real entry point, on a stand-in of an engine: what is done, skipped, stopped, gone on with."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from oomctl.collectors.live.http import get
from oomctl.experiment import steps
from oomctl.experiment.folder import Folder, read_experiment
from oomctl.experiment.recorded import recording
from oomctl.experiment.run import run
from oomctl.experiment.server import healthy, on_port
from oomctl.experiment.settings import Settings
from oomctl.experiment.steps import endurance
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.experiment import Experiment, Leak, Step
from oomctl.schemas.replay import Slo
from tests.cli.run import oomctl
from tests.experiment.conftest import command, processes

EASY = Slo(ttft_s=2.0, tpot_s=1.0)


def settings(root: Path, slo: Slo = EASY, **options: object) -> Settings:
    """Short tries of a launched stand-in."""
    return Settings(root=root / "dir", launch=command(**options), url=None, slo=slo, try_s=0.6, steady_s=3.0, max_rate=60.0)


def did(asked: Settings, *numbers: int) -> Experiment:
    """Run only these steps."""
    return run(asked, lambda text: None, [step for step in steps.STEPS if step.number in numbers])


def went_on(asked: Settings, number: int, rate_per_s: float) -> Experiment:
    """Run one step in a folder whose ramps are done already."""
    folder = Folder(asked.root)
    asked.root.mkdir()
    begun = folder.resume(asked)
    figures: dict[str, float | int | str | None] = {"rate_per_s": rate_per_s}
    begun.steps = [
        Step(number=ramp, name="a ramp", status="passed", began_us=0, ended_us=1, figures=figures) for ramp in (4, 5)
    ]
    folder.keep(begun)
    return did(asked, number)


@contextmanager
def served(**options: object) -> Iterator[str]:
    """A stand-in that somebody else started."""
    port, _, words = on_port(command(**options))
    process = subprocess.Popen(words)
    url = f"http://127.0.0.1:{port}"
    try:
        while not healthy(url):
            assert process.poll() is None
            time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


def test_a_server_that_runs_is_not_restarted_and_nobody_says_that_it_was(tmp_path: Path) -> None:
    with served(tpot=0.001, parallel=64) as url:
        arguments = (
            "capacity",
            "experiment",
            "--url",
            url,
            "-o",
            str(tmp_path / "dir"),
            "--try",
            "400ms",
            "--steady",
            "1s",
        )
        result = oomctl(*arguments, "--max-rate", "15", "--slo", "ttft=2s,tpot=1s", "--json")
        assert result.code == 0, result.err
        assert healthy(url), "it was ended with the experiment"
    found = json.loads(result.out)
    status = {step["number"]: step["status"] for step in found["steps"]}
    assert [number for number, each in status.items() if each == "skipped"] == [1, 2, 3, 8, 9], result.err
    assert list(status) == list(range(1, 11))
    assert found["complete"]
    assert found["point"]["rate_per_s"] <= 15
    assert found["limits"]["total_blocks"] == 401
    evidence = found["steps"][9]["evidence"]
    (free,) = [each for each in evidence if each["figure"] == "kv_pool.free_blocks"]
    assert free["readings"] > 0
    assert free["first_seq"] < free["last_seq"] or free["readings"] == 1
    cited = f"SELECT kind FROM events WHERE stream = '{free['stream']}' AND seq = {free['last_seq']}"
    with recording(tmp_path / "dir" / found["steps"][9]["recordings"][0]) as connection:
        assert connection is not None
        assert connection.execute(cited).fetchall() == [("kv_pool",)]
    # Complete: nothing is left to do, and the same command says the same.
    again = oomctl(*arguments, "--max-rate", "15", "--slo", "ttft=2s,tpot=1s", "--json")
    assert (again.code, again.out) == (0, result.out)


@pytest.mark.parametrize(
    ("options", "slo", "expected"),
    [
        ({"blocks": 31, "tpot": 0.02, "parallel": 64}, EASY, "kv_blocks"),
        ({"blocks": 4001, "tpot": 0.01, "parallel": 1}, Slo(ttft_s=2.0, tpot_s=0.04), "slo"),
    ],
)
def test_memory_first_and_slo_first_are_told_apart(
    tmp_path: Path, options: dict[str, object], slo: Slo, expected: str
) -> None:
    asked = settings(tmp_path, slo, **options)
    found = went_on(asked, 10, rate_per_s=8.0)
    assert found.point is not None, found.steps
    assert found.point.breaks_first == expected, found.steps[-1].reason
    assert found.point.broken_rate_per_s is not None
    assert found.point.rate_per_s < found.point.broken_rate_per_s
    assert processes(str(tmp_path)) == []


def test_the_load_stops_within_two_seconds_of_free_blocks_under_the_floor(tmp_path: Path) -> None:
    # Its page tells of one free block as soon as a few requests are answered; they would go on for 20 s.
    asked = replace(settings(tmp_path, starved_after=3, parallel=64), try_s=20.0)
    found = went_on(asked, 10, rate_per_s=4.0)
    one = found.steps[-1].tries[0]
    assert (one.broke, one.failed) == ("kv_blocks", 0)
    assert 3 <= one.requests < 60, "80 were planned"
    assert one.stopped_in_s is not None
    assert one.stopped_in_s < 2.0


def test_a_leak_is_told_although_a_guard_ended_the_steady_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leak = Leak(
        figure="rss", whose="core", points=90, slope_bytes_per_s=1.0, low_bytes_per_s=0.5, high_bytes_per_s=1.5,
        slope_bytes_per_request=640.0, low_bytes_per_request=600.0, high_bytes_per_request=700.0, grows=True,
    )  # fmt: skip
    monkeypatch.setattr(endurance, "leaks", lambda *arguments: [leak])
    found = went_on(settings(tmp_path, starved_after=9, parallel=64), 8, rate_per_s=8.0).steps[-1]
    assert found.status == "failed"
    assert found.tries[-1].broke == "kv_blocks"
    assert found.reason.startswith("rss of core grows by 640 bytes a request (600 to 700); steady at ")


def test_a_worker_that_dies_in_step_5_is_triaged_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Making it costs seconds, and it is tried in tests/report.
    monkeypatch.setattr("oomctl.report.bundle.chart_code", lambda: "")
    asked = settings(tmp_path, dies_after=40, parallel=64)
    found = did(replace(asked, max_rate=20.0), 4, 5)
    assert [(step.number, step.status) for step in found.steps] == [(4, "passed"), (5, "aborted")], found.steps
    (incident,) = found.incidents
    assert incident.step == 5
    assert incident.report is not None
    assert "<html" in (asked.root / incident.report).read_text(encoding="utf-8")
    assert not found.complete
    assert processes(str(tmp_path)) == []
    with recording(asked.root / found.steps[-1].recordings[0]) as connection:
        assert connection is not None
        # As its agent would call it, had it one.
        assert connection.execute("SELECT DISTINCT worker FROM events").fetchall() == [("worker",)]
    assert incident.report in (asked.root / "report.html").read_text(encoding="utf-8")
    with pytest.raises(OomctlError, match="another max_rate"):
        did(asked, 4, 5)


def test_a_worker_that_dies_between_two_loads_of_a_step_is_told_too(tmp_path: Path) -> None:
    found = went_on(settings(tmp_path, dies_after=5, parallel=64), 7, rate_per_s=16.0)
    assert (found.steps[-1].status, found.steps[-1].reason) == ("aborted", "the worker is gone")
    assert [incident.step for incident in found.incidents] == [7]


def test_a_server_that_others_use_is_left_alone(tmp_path: Path) -> None:
    with served(tpot=0.5) as url:
        parts = urlsplit(url)
        other = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        other.request("POST", "/v1/completions", json.dumps({"prompt": [17] * 8, "max_tokens": 100}))
        while "num_requests_running{" not in page(url) or 'running{engine="0",model_name="fake"} 0' in page(url):
            time.sleep(0.05)
        asked = replace(settings(tmp_path), launch=None, url=url)
        with pytest.raises(OomctlError, match="serves 1 requests of others"):
            did(asked, 4)
        other.close()
    assert list((asked.root / "aiperf").glob("*")) == []


def page(url: str) -> str:
    return get(f"{url}/metrics", 5.0).body.decode()


def test_ctrl_c_leaves_no_process_and_a_folder_to_go_on_with(tmp_path: Path) -> None:
    words = ("capacity", "experiment", "--launch", command(parallel=64), "-o", str(tmp_path / "dir"), "--try", "30s")
    process = subprocess.Popen([sys.executable, "-m", "oomctl", *words], stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stderr is not None
    deadline_s = time.monotonic() + 60
    artifact = tmp_path / "dir" / "experiment.json"
    while not (artifact.exists() and read_experiment(artifact).step(1)) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    while not list((tmp_path / "dir" / "aiperf").glob("001/out")) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert processes(str(tmp_path / "dir")), "nothing runs that could be left"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert processes(str(tmp_path / "dir")) == []
    assert [step.status for step in read_experiment(artifact).steps] == ["passed"]
    assert "Traceback" not in err
