"""Doctor's probes on nodes of every kind, and the command on this one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from oomctl.collectors.live.discover.workers import Worker
from oomctl.collectors.live.probe.engines import engine
from oomctl.collectors.live.probe.finding import Finding
from oomctl.collectors.live.probe.node import node
from tests.cli.run import oomctl
from tests.live.fake_nvml import FakeNvml, Gpu


class Accounting(FakeNvml):
    """A driver that tells whether it keeps accounts."""

    mode = 1

    def nvmlDeviceGetAccountingMode(self, gpu: Gpu) -> int:
        return self.mode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/pod/box\n")
    group = tmp_path / "sys/fs/cgroup/pod/box"
    group.mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    (group / "memory.events").write_text("oom_kill 0\n")
    (tmp_path / "dev/shm").mkdir(parents=True)
    (tmp_path / "dev/kmsg").write_text("")
    return tmp_path


def found(findings: Iterator[Finding]) -> dict[str, Finding]:
    return {one.source: one for one in findings}


def test_a_node_that_has_everything(root: Path) -> None:
    everything = found(node(root, Accounting([Gpu("GPU-aa")])))
    assert {one.state for one in everything.values()} == {"there"}
    assert not any(one.needs for one in everything.values())


def test_a_node_that_has_nothing(tmp_path: Path) -> None:
    class Absent(FakeNvml):
        def nvmlInit(self) -> None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    nothing = found(node(tmp_path, Absent([])))
    assert {one.state for one in nothing.values()} == {"missing"}
    assert all(one.needs for one in nothing.values()), "each says what it needs"
    assert found(node(tmp_path, None))["devices"].needs == "pip install nvidia-ml-py"


def test_a_driver_without_accounts(root: Path) -> None:
    driver = Accounting([Gpu("GPU-aa"), Gpu("GPU-bb")])
    driver.mode = 0
    devices = found(node(root, driver))["devices"]
    assert devices.state == "partly" and "accounting: off on 2" in devices.detail


def test_cgroups_of_version_1(root: Path) -> None:
    (root / "sys/fs/cgroup/cgroup.controllers").unlink()
    (root / "sys/fs/cgroup/memory").mkdir()
    assert found(node(root, None))["cgroup"].needs == "cgroup version 2"


def probe(worker: Worker, metrics: str | None = None, kv_events: int = 0, rings: int = 0) -> dict[str, Finding]:
    return found(engine(worker, metrics, kv_events, Path("/proc"), lambda folder: rings))


def test_an_engine_that_offers_everything() -> None:
    worker = Worker("vllm", 7, False, "vllm serve m", ports=(8000,), rings="/dev/shm/r")
    assert {one.state for one in probe(worker, "http://x/metrics", 1, 3).values()} == {"there"}


def test_an_engine_that_offers_nothing() -> None:
    everything = probe(Worker("vllm", 7, False, "vllm serve m"))
    assert {one.state for one in everything.values()} == {"missing"}
    assert all(one.needs for one in everything.values())
    (sglang, agent, events) = probe(Worker("sglang", 7, False, "sglang")).values()
    assert sglang.needs == "--enable-metrics" and agent.needs is not None and events.needs is not None
    assert "no router" in str(probe(Worker("trtllm", 7, False, "trtllm-serve m"))["trtllm 7: KV events"].needs)


def test_an_orphan_is_named_and_nothing_is_asked_of_it() -> None:
    (only,) = probe(Worker("vllm", 7, True, "VLLM::EngineCore")).values()
    assert "its server is gone" in only.detail


def test_another_users_worker() -> None:
    first, *_ = probe(Worker("tgi", 7, False, "x", readable=False)).values()
    assert first.needs == "the same user, or root"


def test_the_command() -> None:
    told: list[dict[str, Any]] = json.loads(oomctl("doctor", "--json").out)
    assert {"devices", "cgroup", "kernel log", "room for rings"} <= {row["source"] for row in told}
    assert {row["state"] for row in told} <= {"there", "partly", "missing"}
