"""The recorder beside a real engine: what it keeps, freezes and concludes, and that it ends when it is told to."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.agent.reader import ring_paths
from tests.engine import load
from tests.engine.recording import Recording
from tests.engine.server import Server

PATIENCE_S = 120


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "oomctl", *words]


def ran(*words: str) -> Any:
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in words else done.stderr


def attached(server: Server, folder: Path, *words: str) -> "subprocess.Popen[str]":
    words = ("attach", str(server.process.pid), "-o", str(folder), "--log", str(server.log), *words)
    return subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True)


def steps(folder: Path) -> list[tuple[int, int]]:
    """(step, running) as the recording has them."""
    sql = "SELECT step_id, running_requests FROM step WHERE stream LIKE '%/core-%' ORDER BY seq"
    return [(row["step_id"], row["running_requests"]) for row in ran("query", str(folder), "-c", sql, "--json")]


def wait_for(condition: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def test_recorded_frozen_killed_and_told(engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> None:
    rings, recording, hooked = tmp_path / "rings", tmp_path / "rec", tmp_path / "hooked.json"
    rings.mkdir()
    environment = {"OOMCTL_RING": str(rings), "OOMCTL_TRACKED_REQUESTS": "0", "PYTHONPATH": str(agent_site)}
    # A pool that holds the whole load: no request is preempted.
    with Server(engine, model, tmp_path / "server.log", kv_blocks=512, environment=environment) as server:
        first = attached(server, recording)
        done = load.run(server.port, load.wishes(8, 60, seed=5))
        assert {outcome.state for outcome in done} == {"finished"}
        wait_for(lambda: (recording / "live").exists() and list((recording / "live").glob("*.live")), "no segment")
        first.send_signal(signal.SIGTERM)
        _, err = first.communicate(timeout=PATIENCE_S)
        assert first.returncode == 0, err

        # It kept what the rings hold, step by step; a healthy worker has no incident.
        rung = [
            (step["step_id"], step["running_requests"]) for step in Recording.read(rings, final=False).of("core", "step")
        ]
        kept = steps(recording)
        assert kept == rung[: len(kept)]
        assert len(kept) > 50
        assert "wrote" in ran("freeze", str(recording), "--around", "now", "-o", str(tmp_path / "now.parquet"))
        assert ran("triage", str(tmp_path / "now.parquet"), "--json")["incidents"] == []
        sql = "SELECT count(*) AS n FROM host WHERE source = 'host' AND total_bytes > 0"
        assert ran("query", str(recording), "-c", sql, "--json")[0]["n"] > 0

        # The next recorder goes on, and sees the worker killed in the middle of its work.
        hook = f"{sys.executable} -c \"import sys; open('{hooked}', 'w').write(sys.stdin.read())\""
        second = attached(server, recording, "--hook", hook)
        load.start(server.port, load.wishes(12, 900, seed=6))
        wait_for(lambda: len(steps(recording)) > len(rung) + 50, "it does not go on")
        worker = server.pid_of("Worker")
        os.kill(worker, signal.SIGKILL)
        try:
            _, err = second.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            second.kill()
            pytest.fail(f"the recorder did not end with its worker: {second.communicate()[1]}")
        assert second.returncode == 0, err

    (file,) = (recording / "incidents").iterdir()
    told = json.loads(hooked.read_text())
    assert (told["incident_id"], told["incident_file"]) == (file.stem, str(file))
    incidents = ran("triage", str(file), "--json")["incidents"]
    assert len(incidents) == 1, [item["summary"] for item in incidents]
    # A SIGKILL that no count of kills for memory goes with: undetermined, and not confident of anything. Host memory is a
    # guess only where nobody could watch for such a kill.
    sql = "SELECT 1 AS looked FROM collector WHERE name IN ('kernel_log', 'kill_count') AND state = 'ok'"
    resource = None if ran("query", str(recording), "-c", sql, "--json") else "host"
    assert (incidents[0]["verdict"], incidents[0]["resource"]) == (None, resource), incidents[0]["summary"]
    assert incidents[0]["confidence"] < 0.6
    ended = ran("query", str(recording), "-c", "SELECT signal FROM lifecycle WHERE phase = 'killed'", "--json")
    assert 9 in {row["signal"] for row in ended} or {row["signal"] for row in ended} == {None}
    lost = ran("query", str(recording), "-c", "SELECT reason, count FROM loss WHERE reason <> 'torn at the kill'", "--json")
    assert lost == []
    ids = [step for step, _ in steps(recording)]
    assert ids == list(range(1, len(ids) + 1)), "nothing is twice, nothing is left out"
    assert ring_paths(rings) == [], "what the dead left is kept, and removed"
