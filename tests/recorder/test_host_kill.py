"""Workers that the kernel kills for host memory: told as that from the recording alone, without a log or the kernel's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oomctl.collectors.agent.process import start_ticks
from oomctl.collectors.live.host.kernel_log import KernelLog
from oomctl.collectors.live.processes import sees_all
from oomctl.pipeline import triage_paths
from oomctl.schemas.verdict import Incident
from tests.cgroups import memory_cgroup
from tests.live.fakes import GIB, FakeHost
from tests.recorder.stand_in import Time, Worker, recorder, rows
from tests.working_tree import ROOT

MIB = 1 << 20
WORKER = """
import sys
from pathlib import Path
from tests.recorder.stand_in import Worker
rings, cgroup, mib = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
(cgroup / "cgroup.procs").write_text("0")
worker = Worker(rings, capacity=512)
worker.phase("loading", "weights_loaded", "kv_allocated", "ready")
worker.step(1)
held = [bytearray(b"x") * (mib << 20)]
print("serves", flush=True)
sys.stdin.readline()
while True:
    held.append(bytearray(b"x") * (8 << 20))
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    with memory_cgroup(256 * MIB) as made:
        yield made.folder


def start(rings: Path, cgroup: Path, mib: int) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(rings), str(cgroup), str(mib)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "serves\n"
    return process


def told(folder: Path) -> list[Incident]:
    (file,) = (folder / "incidents").iterdir()
    found = triage_paths([str(file)]).incidents
    assert [item.id for item in triage_paths([str(folder)]).incidents] == [item.id for item in found]
    return found


def test_the_kernel_kills_a_worker_in_its_cgroup(tmp_path: Path, cgroup: Path) -> None:
    with start(tmp_path / "rings", cgroup, 40) as worker:
        stands = Time(real=True)
        beside = recorder(tmp_path / "rec", tmp_path / "rings", stands, worker.pid)
        beside.round()
        worker.communicate("grow\n")
        assert worker.returncode == -9
    beside.round()
    beside.close()
    (found,) = told(tmp_path / "rec")
    assert (found.verdict, found.resource, found.survived) == ("oom", "host", False)
    assert found.causes[0].cause == "host_limit"
    assert "256" in found.causes[0].detail
    # The kernel's own report, where it may be read, stands in place of what the counts let conclude: one kill, told once.
    told_by = "cgroup" if KernelLog().absent or not sees_all() else "kernel_cgroup"
    assert rows(tmp_path / "rec", "SELECT api FROM oom") == [(told_by,)]
    assert rows(tmp_path / "rec", "SELECT signal FROM lifecycle WHERE phase = 'killed'") in ([(9,)], [(None,)])


def test_old_and_new_in_one_cgroup_until_the_kernel_kills_one(tmp_path: Path, cgroup: Path) -> None:
    with start(tmp_path / "rings", cgroup, 80) as old, start(tmp_path / "rings", cgroup, 40) as new:
        beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(real=True), new.pid)
        beside.round()
        new.communicate("grow\n")
        assert new.returncode == -9
        beside.round()
        beside.close()
        old.kill()
    (found,) = told(tmp_path / "rec")
    assert (found.verdict, found.oom_class, found.resource) == ("oom", "recovery", "host")
    assert found.causes[0].cause == "earlier_incarnation"
    assert found.causes[0].bytes is not None and found.causes[0].bytes > 80 * MIB


@pytest.mark.parametrize("killed", [True, False])
def test_a_death_with_and_without_the_count_of_its_cgroup(tmp_path: Path, killed: bool) -> None:
    """The same by a made-up host, where cgroups are not ours to make."""
    fake = FakeHost(tmp_path / "host", version=2)
    fake.cgroup("/")
    fake.cgroup("/box", current=GIB, limit=2 * GIB)
    worker = Worker(tmp_path / "rings")
    worker.phase("loading", "weights_loaded", "kv_allocated", "ready")
    worker.step(1)
    pid = os.getpid()
    fake.process(pid, "/box", name="of-no-known-name", ticks=start_ticks())
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(real=True), pid, proc=fake.proc)
    beside.round()
    fake.cgroup("/box", current=2 * GIB, limit=2 * GIB, kills=int(killed))
    fake.dies(pid)
    beside.round()
    beside.close()
    (found,) = told(tmp_path / "rec")
    assert (found.verdict, found.resource) == (("oom", "host") if killed else (None, None))
    assert (found.confidence > 0.8) == killed
    # The count stood still, so the kernel did not kill it; a daemon still may have, and who did stays open.
    assert any("stood still" in item.says for item in found.evidence) == (not killed)
    assert not any("the kernel's OOM killer" in item.what for item in found.alternatives)
    assert any("systemd-oomd" in item.what for item in found.alternatives) == (not killed)
    assert ("the container's memory limit and its events" in {item.what for item in found.missing}) is False
    assert any("kernel's log" in item.what for item in found.missing) == (not killed)
