"""Workers that are killed while they serve: what their rings still say."""

import os
import signal
import time
from pathlib import Path

from oomctl.collectors.agent.header import set_active
from oomctl.collectors.agent.reader import ring_paths
from tests.engine import load
from tests.engine.recording import Recording
from tests.engine.server import Server


def wait_for(condition, seconds: float = 60) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def steps_of(rings: Path) -> int:
    return len(list(Recording.read(rings, final=False).of("core", "step")))


def test_paused_resumed_and_killed(engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    rings.mkdir()
    environment = {"OOMCTL_RING": str(rings), "OOMCTL_TRACKED_REQUESTS": "0", "PYTHONPATH": str(agent_site)}
    with Server(engine, model, tmp_path / "server.log", environment=environment) as server:
        load.start(server.port, load.wishes(12, 900, seed=3))
        wait_for(lambda: steps_of(rings) > 20)

        cores = [path for path in ring_paths(rings) if path.name.startswith("core-")]
        for path in cores:
            set_active(path, False)
        time.sleep(1)
        paused = steps_of(rings)
        time.sleep(2)
        assert steps_of(rings) == paused, "it records although it was told to pause"
        for path in cores:
            set_active(path, True)
        wait_for(lambda: steps_of(rings) > paused + 20)

        worker = server.pid_of("Worker")
        killed_ns = time.monotonic_ns()
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: list(Recording.read(rings, final=False).of("core", "fault")))
        time.sleep(1)
    recording = Recording.read(rings)

    # The killed process.
    last = recording.last("worker")
    steps = list(recording.of("core", "step"))
    longest_ns = max(step["duration_us"] for step in steps) * 1000
    assert 0 <= killed_ns - last.monotonic_ns <= longest_ns, "its last record is older than a step"
    assert not any(header.closed for header in recording.headers("worker"))
    assert recording.losses()["torn"] <= 1
    assert recording.losses()["errors"] == 0

    # The core that outlived it for a moment: the failing batch, and everyone alive.
    (fault,) = recording.of("core", "fault")
    assert fault["fatal"]
    frames = [frame for frame in recording.of("core", "stack") if frame["stack_id"] == fault["stack_id"]]
    assert [frame["depth"] for frame in frames] == list(range(len(frames)))
    assert any(frame["file"].endswith("core.py") for frame in frames)
    assert steps[-1]["dumped"]
    alive = recording.requests("oom")
    assert len(alive) == steps[-1]["running_requests"] + steps[-1]["waiting_requests"] > 0
    held = sum(event["kv_blocks"] for (event,) in alive.values())
    pool = list(recording.of("core", "kv_pool"))[-1]
    # A block of the shared prefix is held by several.
    assert held >= pool["used_blocks"] > 0
    assert all(
        pool["allocated_blocks"] - pool["freed_blocks"] == pool["used_blocks"] for pool in recording.of("core", "kv_pool")
    )

    # The API server, which ended because of that.
    assert [fault["code"] for fault in recording.of("api_server", "fault")] == ["engine_dead"]
    assert "draining" not in [record["phase"] for record in recording.of("api_server", "lifecycle")]

    # Taken over again after the pause, with what each held by then.
    adopted = [event for events in recording.requests().values() for event in events if event["event"] == "scheduled"]
    assert adopted
    assert all(event["kv_blocks_delta"] == event["kv_blocks"] > 0 for event in adopted)
