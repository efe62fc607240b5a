"""Rings that the dead leave: removed once what they hold is kept, never before, and never while their process may live."""

import os
from pathlib import Path

import pytest

from oomctl.collectors.agent.reader import ring_paths
from oomctl.collectors.live.processes import INITIAL_PID_NAMESPACE
from tests.live.fakes import FakeHost
from tests.recorder.stand_in import NODE, Time, Worker, recorder, rows

STEPS = 30
COUNT = "SELECT count(*) FROM step"


def left_by_a_dead_process(rings: Path) -> None:
    child = os.fork()
    if child == 0:
        worker = Worker(rings)
        for step_id in range(STEPS):
            worker.step(step_id)
        os._exit(0)
    os.waitpid(child, 0)


def removed(root: Path) -> list[str]:
    return [row[0] for row in rows(root, "SELECT detail FROM collector WHERE detail LIKE 'removed%' ORDER BY seq")]


def test_it_is_removed_and_counted_once_it_is_kept(tmp_path: Path) -> None:
    left_by_a_dead_process(tmp_path / "rings")
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), os.getpid())
    beside.round()
    beside.close()
    assert ring_paths(tmp_path / "rings") == []
    assert rows(tmp_path / "rec", COUNT) == [(STEPS,)]
    (told,) = removed(tmp_path / "rec")
    assert told.startswith("removed 1 rings of dead processes")
    assert not any(key.startswith("ring:") for key in beside._store.state), "nothing need be known of it any more"


def test_that_of_a_living_process_stays(tmp_path: Path) -> None:
    Worker(tmp_path / "rings").step(1)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), os.getpid())
    beside.round()
    beside.close()
    assert len(ring_paths(tmp_path / "rings")) == 1
    assert removed(tmp_path / "rec") == []


def test_it_stays_where_that_is_wanted(tmp_path: Path) -> None:
    left_by_a_dead_process(tmp_path / "rings")
    recorder(tmp_path / "rec", tmp_path / "rings", Time(), os.getpid(), keep_rings=True).close()
    assert len(ring_paths(tmp_path / "rings")) == 1


@pytest.mark.parametrize(("namespace", "stays"), [(INITIAL_PID_NAMESPACE, False), ("pid:[4026532000]", True)])
def test_a_process_that_was_never_seen_may_run_elsewhere(tmp_path: Path, namespace: str, stays: bool) -> None:
    """GIVEN a ring whose process is not found WHEN not every process is to be seen from here THEN it is left alone."""
    left_by_a_dead_process(tmp_path / "rings")
    fake = FakeHost(tmp_path / "host")
    fake.process(1, ticks=1)
    fake.namespace(namespace)
    proc = fake.proc
    (proc / "sys/kernel/random").mkdir(parents=True)
    (proc / "sys/kernel/random/boot_id").write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), 1, proc=proc)
    beside.round()
    beside.close()
    assert bool(ring_paths(tmp_path / "rings")) == stays


def test_the_next_recorder_removes_what_an_earlier_one_had_read(tmp_path: Path) -> None:
    left_by_a_dead_process(tmp_path / "rings")
    recorder(tmp_path / "rec", tmp_path / "rings", Time(), os.getpid(), keep_rings=True).close()
    recorder(tmp_path / "rec", tmp_path / "rings", Time(), os.getpid()).close()
    assert ring_paths(tmp_path / "rings") == []
    assert rows(tmp_path / "rec", COUNT) == [(STEPS,)]


def test_while_the_disk_is_full_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_by_a_dead_process(tmp_path / "rings")
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), os.getpid())

    def full(self: object, frame: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("oomctl.collectors.recorder.live.LiveWriter.append", full)
        beside.round()
        beside.round()
        assert len(ring_paths(tmp_path / "rings")) == 1
    beside.round()
    beside.close()
    assert ring_paths(tmp_path / "rings") == []
    assert rows(tmp_path / "rec", COUNT) == [(STEPS,)]
    assert rows(tmp_path / "rec", "SELECT DISTINCT stream FROM step")[0][0].startswith(f"{NODE}/core-")
