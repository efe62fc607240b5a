"""The recorder: what it takes in, writes, freezes and reports, with a clock of the test's."""

import os
import resource
import shutil
import signal
from pathlib import Path

import pytest

from oomctl.collectors.agent.header import MAX_COUNT
from oomctl.collectors.agent.layout import DROPPED_OFFSET
from oomctl.collectors.recorder.archive import evict
from oomctl.collectors.recorder.folder import Folder, is_recording
from oomctl.schemas.errors import OomctlError
from tests.recorder.stand_in import Time, Worker, recorder, rows

PID = os.getpid()
SEQS = "SELECT min(seq), max(seq), count(*), count(DISTINCT seq) FROM events WHERE source = 'agent'"
LOSSES = "SELECT reason, count FROM loss ORDER BY stream, seq"


def test_a_ring_that_is_cut_short_does_not_end_the_recorder(tmp_path: Path) -> None:
    """GIVEN a ring that somebody truncates WHEN it is drained THEN that is told, and the other rings are read on."""
    time, worker = Time(), Worker(tmp_path / "rings")
    other = Worker(tmp_path / "rings", role="worker")
    worker.step(1)
    other.step(1)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, os.getpid())
    beside.round()
    assert worker.ring.path is not None
    os.truncate(worker.ring.path, 100)
    other.step(2)
    beside.round()
    beside.round()
    beside.close()
    told = rows(tmp_path / "rec", "SELECT state, detail FROM collector WHERE detail LIKE '%cut short%'")
    assert [state for state, _ in told] == ["failed"]
    assert rows(tmp_path / "rec", "SELECT max(step_id) FROM step WHERE stream LIKE '%/worker-%'") == [(2,)]


def test_a_ring_that_its_worker_spoils_does_not_end_the_recorder(tmp_path: Path) -> None:
    """GIVEN a header and counters that are overwritten WHEN it is drained THEN what comes after them is recorded too."""
    worker = Worker(tmp_path / "rings")
    worker.step(1)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), os.getpid())
    beside.round()
    assert worker.ring.path is not None
    with worker.ring.path.open("r+b") as file:
        file.write(b"\xff" * 400)
        file.seek(DROPPED_OFFSET)
        file.write(b"\xff" * 16)
    worker.step(2)
    beside.round()
    beside.close()
    assert rows(tmp_path / "rec", "SELECT max(step_id) FROM step") == [(2,)]
    assert rows(tmp_path / "rec", LOSSES) == [("could not be written to the ring", MAX_COUNT)]


def test_what_a_ring_holds_is_recorded_and_read_while_it_is(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings")
    worker.phase("loading", "ready")
    time = Time()
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, PID)
    beside.round()
    worker.step(1)
    beside.round()
    assert is_recording(tmp_path / "rec")
    assert rows(tmp_path / "rec", SEQS) == [(1, 4, 4, 4)]
    beside.close()
    assert rows(tmp_path / "rec", "SELECT phase FROM lifecycle ORDER BY seq") == [("loading",), ("ready",)]
    assert rows(tmp_path / "rec", "SELECT DISTINCT worker, node, rank FROM step") == [("w0", "node1", 0)]


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    Worker(tmp_path / "rings").step(1)
    recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID).close()
    modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in (tmp_path / "rec").rglob("*")}
    assert {mode for name, mode in modes.items() if (tmp_path / name).is_dir()} == {0o700}
    assert {mode for name, mode in modes.items() if (tmp_path / name).is_file()} == {0o600}


def test_the_next_recorder_goes_on_and_nothing_is_twice(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings")
    for turn in range(5):
        for step_id in range(10):
            worker.step(turn * 10 + step_id)
        beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID)
        beside.round()
        if turn % 2:
            beside.close()
        else:
            beside._store.close()  # as a kill leaves it: the lock goes with the process
            os.close(beside._lock)
    assert rows(tmp_path / "rec", SEQS) == [(1, 100, 100, 100)]
    assert rows(tmp_path / "rec", LOSSES) == []


def test_overwritten_records_are_counted(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings", capacity=64)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID)
    worker.step(0)
    beside.round()
    for step_id in range(500):
        worker.step(step_id)
    beside.close()
    ((first, last, count, _),) = rows(tmp_path / "rec", SEQS)
    ((reason, lost),) = rows(tmp_path / "rec", LOSSES)
    assert (first, last) == (1, 1002)
    assert reason == "overwritten in the ring before it was read"
    assert count + lost == 1002


def test_a_full_ring_is_drained_in_rounds(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings", capacity=16384)
    for step_id in range(6000):
        worker.step(step_id)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID)
    rounds = 1
    while beside.round():
        rounds += 1
    beside.close()
    assert rounds == 3
    assert rows(tmp_path / "rec", SEQS) == [(1, 12000, 12000, 12000)]


def test_segments_turn_and_are_packed_into_hours(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings")
    time = Time()
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, PID)
    for step_id in range(14):
        worker.step(step_id)
        beside.round()
        beside._jobs.finish()
        time.now_s += 601
    beside.close()
    folder = Folder(tmp_path / "rec")
    assert folder.packed()
    assert not folder.covered()
    assert rows(tmp_path / "rec", SEQS) == [(1, 28, 28, 28)]
    assert rows(tmp_path / "rec", LOSSES) == []


def test_a_segment_that_an_hour_covers_is_not_read_twice(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings")
    time = Time()
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, PID)
    for step_id in range(3):
        worker.step(step_id)
        beside.round()
        time.now_s += 601
    shutil.copytree(tmp_path / "rec" / "live", tmp_path / "copy")
    beside._jobs.add("pack", str(tmp_path / "rec"), then=lambda done: None)
    beside._jobs.finish()
    # As a kill leaves it between the hour's appearance and the segments' removal.
    shutil.copytree(tmp_path / "copy", tmp_path / "rec" / "live", dirs_exist_ok=True)
    assert Folder(tmp_path / "rec").covered()
    assert rows(tmp_path / "rec", SEQS) == [(1, 6, 6, 6)]
    beside.close()


def test_two_recorders_do_not_write_one_recording(tmp_path: Path) -> None:
    Worker(tmp_path / "rings").step(1)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID)
    with pytest.raises(OomctlError, match="another recorder writes there"):
        recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID)
    beside.close()


def test_a_read_only_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OomctlError, match="cannot record there"):
        recorder(tmp_path / "file" / "rec", None, Time(), PID)


def test_a_full_disk_is_told_and_costs_nothing_that_the_ring_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(tmp_path / "rings")
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID)
    worker.step(0)
    beside.round()
    size = next((tmp_path / "rec" / "live").iterdir()).stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, limits[1]))
    try:
        for step_id in range(1, 20):
            worker.step(step_id)
            beside.round()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said == ["cannot write: File too large; the rings hold what comes meanwhile"]
    beside.round()
    beside.close()
    assert rows(tmp_path / "rec", SEQS) == [(1, 40, 40, 40)]
    assert ("degraded", "could not write for a while: File too large") in rows(
        tmp_path / "rec", "SELECT state, detail FROM collector"
    )


def test_a_wall_clock_that_jumps_is_told(tmp_path: Path) -> None:
    Worker(tmp_path / "rings").step(1)
    time = Time()
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, PID)
    beside.round()
    time.jumped_us = -3_600_000_000
    beside.round()
    beside.close()
    told = rows(tmp_path / "rec", "SELECT detail FROM collector WHERE state = 'degraded'")
    assert told == [("the wall clock jumped by -3600.0 s",)]


def test_a_ring_of_another_version_is_told_once(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings")
    worker.step(1)
    assert worker.ring.path is not None
    strange = bytearray(worker.ring.path.read_bytes())
    strange[8] = 9
    (tmp_path / "rings" / "core-1-1-1-0.ring").write_bytes(strange)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID)
    for _ in range(12):
        beside.round()
    beside.close()
    told = rows(tmp_path / "rec", "SELECT detail FROM collector WHERE state = 'failed'")
    assert len(told) == 1
    assert "ring layout 9" in told[0][0]
    assert rows(tmp_path / "rec", SEQS) == [(1, 2, 2, 2)]


def test_a_forked_process_s_ring_is_found(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings")
    worker.step(1)
    time = Time()
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, PID)
    beside.round()
    child = os.fork()
    if child == 0:
        worker.step(2)
        os._exit(0)
    os.waitpid(child, 0)
    for _ in range(6):
        beside.round()
    beside.close()
    assert rows(tmp_path / "rec", "SELECT count(DISTINCT stream) FROM step") == [(2,)]


def test_it_ends_with_its_worker_although_another_life_of_it_goes_on(tmp_path: Path) -> None:
    Worker(tmp_path / "rings").step(1)
    heard, says = os.pipe()
    child = os.fork()
    if child == 0:
        Worker(tmp_path / "rings").step(1)
        os.write(says, b"x")
        signal.pause()
    os.read(heard, 1)
    time = Time(real=True)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, child)
    beside.round()
    assert rows(tmp_path / "rec", "SELECT count(DISTINCT incarnation) FROM step") == [(2,)]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for _ in range(3):
        beside.round()
        beside._jobs.finish()
        time.now_s += 10
    beside.round()
    assert beside.finished
    beside.close()


def test_another_worker_s_rings_are_left_alone(tmp_path: Path) -> None:
    Worker(tmp_path / "rings").step(1)
    other = Worker(tmp_path / "rings", worker="w1")
    other.step(1)
    # Both are of this process, so the first by name is taken: what matters is that they do not mix.
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), PID)
    beside.round()
    beside.close()
    assert rows(tmp_path / "rec", "SELECT count(DISTINCT worker) FROM step") == [(1,)]


def packed(tmp_path: Path) -> Path:
    """A recording of an hour and a segment, with 6002 rows of the agent's and the recorder's own."""
    worker = Worker(tmp_path / "rings", capacity=16384)
    worker.phase("loading", "ready")
    time = Time()
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, PID)
    for step_id in range(3000):
        worker.step(step_id)
    while beside.round():
        pass
    time.now_s += 3601
    beside.round()
    beside._jobs.finish()
    beside.close()
    assert len(Folder(tmp_path / "rec").packed()) == 1
    return tmp_path / "rec"


def test_age_takes_hours_and_keeps_how_the_worker_started(tmp_path: Path) -> None:
    root = packed(tmp_path)
    done = evict(root, 1 << 40, 1 << 60)
    assert Folder(root).packed() == []
    assert rows(root, SEQS) == [(1, 1000, 1000, 1000)]
    assert rows(root, "SELECT phase FROM lifecycle ORDER BY seq") == [("loading",), ("ready",)]
    assert done["rows_lost"] == 5002
    # A kill between the two may leave the hour beside what was kept of it.
    assert evict(root, 1 << 40, 1 << 60)["rows_lost"] == 0


def test_the_budget_takes_incidents_last(tmp_path: Path) -> None:
    root = packed(tmp_path)
    for name, age in (("old", 2), ("new", 1)):
        (root / "incidents" / f"{name}.parquet").write_bytes(bytes(50_000))
        os.utime(root / "incidents" / f"{name}.parquet", (10**9 - age, 10**9 - age))
    live = sum(path.stat().st_size for path in (root / "live").iterdir())
    done = evict(root, live + 60_000, 0)
    assert done["rows_lost"] > 5000
    assert done["incidents_lost"] == ["old"]
    assert [path.stem for path in (root / "incidents").iterdir()] == ["new"]
    assert done["used_bytes"] <= live + 60_000


def test_what_the_budget_took_is_reported(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings")
    worker.step(1)
    time = Time()
    beside = recorder(tmp_path / "rec", tmp_path / "rings", time, PID, budget_bytes=1)
    beside.round()
    for _ in range(2):
        time.now_s += 3601
        beside.round()
        beside._jobs.finish()
    beside.close()
    ((lost,),) = rows(tmp_path / "rec", "SELECT sum(count) FROM loss WHERE reason = 'given up for the budget'")
    assert lost >= 2
    assert rows(tmp_path / "rec", SEQS) == [(None, None, 0, 0)]
