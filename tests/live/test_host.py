"""The host's side of a worker: who was killed for memory, who was not, and how processes ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.live.host.ends import End, Ends
from oomctl.collectors.live.host.sampler import EVERY_US, FORGET_US, Fact, Host, Process
from tests.live.fakes import GIB, FakeHost

LIMIT = 4 * GIB


def following(fake: FakeHost, *pids: int) -> Host:
    host = Host(fake.root)
    host.follow([Process(pid, {"incarnation": f"life{pid}"}) for pid in pids])
    host.sample(0)
    return host


def of(kind: str, facts: list[Fact]) -> list[dict[str, Any]]:
    return [fields for name, fields, _ in facts if name == kind]


def boxed(tmp_path: Path, version: int, *pids: int) -> FakeHost:
    fake = FakeHost(tmp_path, version)
    fake.cgroup("/")
    fake.cgroup("/box", current=GIB, limit=LIMIT)
    for pid in pids:
        fake.process(pid, "/box", rss_bytes=pid * GIB)
    return fake


@pytest.mark.parametrize("version", [1, 2])
def test_a_process_that_is_missed_while_the_count_grew_was_killed(tmp_path: Path, version: int) -> None:
    fake = boxed(tmp_path, version, 2, 1)
    host = following(fake, 2, 1)
    fake.cgroup("/box", current=LIMIT, limit=LIMIT, kills=1)
    fake.dies(2)
    host.sample(5)
    assert host.missing() == [2]
    ends, facts = host.gone([2], 5)
    assert ends == {2: End()}
    (word,) = of("oom", facts)
    assert (word["resource"], word["api"], word["error_type"], word["fatal"]) == ("host", "cgroup", "oom_kill", True)
    assert (word["victim_pid"], word["victim"], word["own_process_bytes"]) == (2, "python3", 2 * GIB)
    assert [row["pid"] for row in of("process", facts)] == [2, 1], "who else was there then"
    (usage,) = of("host", facts)
    assert (usage["cgroup_current_bytes"], usage["cgroup_limit_bytes"], usage["cgroup_oom_kills"]) == (LIMIT, LIMIT, 1)
    assert (usage["total_bytes"], usage["free_bytes"]) == (64 * GIB, 16 * GIB)


def test_an_end_without_a_kill_says_who_looked(tmp_path: Path) -> None:
    fake = boxed(tmp_path, 2, 2)
    host = following(fake, 2)
    fake.dies(2)
    host.sample(5)
    facts = host.gone([2], 5)[1]
    assert of("oom", facts) == []
    (looked,) = of("collector", facts)
    assert (looked["name"], looked["state"]) == ("kill_count", "ok"), "there is no kernel log here"
    assert "stood still as pid 2 went" in looked["detail"]


def test_where_no_count_is_to_be_seen_nobody_looked(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path, 2)
    (fake.root / "proc/vmstat").unlink(missing_ok=True)
    fake.process(2, "/", rss_bytes=GIB)
    host = following(fake, 2)
    fake.dies(2)
    host.sample(5)
    assert of("collector", host.gone([2], 5)[1]) == []


@pytest.mark.parametrize(("status", "end"), [(11, End(signal=11)), (256, End(exit_code=1))])
def test_who_is_known_to_have_ended_otherwise_was_not_killed(tmp_path: Path, status: int, end: End) -> None:
    fake = boxed(tmp_path, 2, 2)
    host = following(fake, 2)
    fake.cgroup("/box", kills=1)
    fake.dies(2, status)
    host.sample(5)
    assert host.missing() == [2]
    ends, facts = host.gone([2], 5)
    assert ends == {2: end}
    assert of("oom", facts) == []


def test_of_several_that_are_gone_the_one_that_got_a_sigkill_is_the_victim(tmp_path: Path) -> None:
    fake = boxed(tmp_path, 2, 1, 2, 3)
    host = following(fake, 1, 2, 3)
    fake.cgroup("/box", kills=1)
    fake.dies(1, 9)
    fake.dies(2)
    fake.dies(3)
    host.sample(5)
    assert [word["victim_pid"] for word in of("oom", host.gone([3, 2, 1], 5)[1])] == [1]


def test_an_old_kill_of_another_is_not_its_own(tmp_path: Path) -> None:
    fake = boxed(tmp_path, 2, 2)
    host = following(fake, 2)
    fake.cgroup("/box", kills=1)
    host.sample(10)
    host.sample(11 + FORGET_US)
    fake.dies(2)
    host.sample(12 + FORGET_US)
    assert of("oom", host.gone([2], 13 + FORGET_US)[1]) == []


def test_a_cgroup_that_went_with_its_last_process_is_counted_above(tmp_path: Path) -> None:
    fake = boxed(tmp_path, 2)
    fake.cgroup("/pod", kills=5)
    box = fake.cgroup("/pod/box", kills=1)
    fake.process(2, "/pod/box")
    host = following(fake, 2)
    fake.cgroup("/pod", kills=6)
    for path in box.iterdir():
        path.unlink()
    fake.dies(2)
    host.sample(5)
    assert len(of("oom", host.gone([2], 5)[1])) == 1


def test_without_cgroups_the_host_s_count_tells(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path, version=0, kills=3)
    fake.process(2)
    host = following(fake, 2)
    fake.host_kills(4)
    fake.dies(2)
    host.sample(5)
    (word,) = of("oom", host.gone([2], 5)[1])
    assert word["api"] == "kernel"


def test_that_no_cgroup_is_seen_is_said_once(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path, version=0)
    for pid in (2, 3):
        fake.process(pid)
    host = Host(fake.root)
    host.follow([Process(pid, {}) for pid in (2, 3)])
    (said,) = (row for row in of("collector", host.sample(1)) if row["name"] == "host")
    assert said["state"] == "absent"
    assert of("collector", host.sample(2)) == []


def test_a_cgroup_without_pressure_is_not_given_the_host_s(tmp_path: Path) -> None:
    fake = boxed(tmp_path, 2, 1)
    (fake.root / "sys/fs/cgroup/box/memory.pressure").write_text("some avg10=0.00 avg60=0 avg300=0 total=1\n")
    (fake.proc / "pressure").mkdir()
    (fake.proc / "pressure" / "memory").write_text("some avg10=50.00 avg60=0 avg300=0 total=1\n")
    host = Host(fake.root)
    host.follow([Process(1, {})])
    (usage,) = of("host", host.sample(EVERY_US))
    assert usage["pressure_ratio"] == 0


def test_rows_are_written_when_a_figure_moves_and_now_and_then(tmp_path: Path) -> None:
    fake = boxed(tmp_path, 2, 1)
    fake.namespace()
    fake.logs("")
    host = Host(fake.root)
    host.follow([Process(1, {})])
    assert [kind for kind, _, _ in host.sample(EVERY_US)] == ["process", "host"]
    assert host.sample(EVERY_US + 1) == []
    fake.cgroup("/box", current=2 * GIB, limit=LIMIT)
    assert [kind for kind, _, _ in host.sample(EVERY_US + 2)] == ["host"]
    assert [kind for kind, _, _ in host.sample(3 * EVERY_US)] == ["process", "host"]


def grandchild() -> tuple["subprocess.Popen[str]", int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess as s; p = s.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_the_kernel_tells_how_another_s_child_ended() -> None:
    parent, pid = grandchild()
    ends = Ends()
    ends.hold(pid)
    os.kill(pid, signal.SIGKILL)
    parent.wait()
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    assert ends.of(pid) == (End(signal=9) if release >= (6, 15) else End())


def test_a_zombie_tells_it_too() -> None:
    with subprocess.Popen([sys.executable, "-c", "import os; os.abort()"], stderr=subprocess.DEVNULL) as child:
        ends = Ends()
        ends.hold(child.pid)
        while b") Z" not in Path(f"/proc/{child.pid}/stat").read_bytes():
            time.sleep(0.01)
        assert ends.of(child.pid) == End(signal=6)
