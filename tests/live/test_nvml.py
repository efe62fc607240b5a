"""The poller against a driver that has everything, lacks something, loses a device, or hangs."""

import threading
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.nvml.poller import NvmlPoller
from oomctl.collectors.live.nvml.visible import devices
from oomctl.collectors.live.poller import HANG_S, PROCESSES_S
from tests.live.clock import Time
from tests.live.fake_nvml import GIB, FakeNvml, Gpu


class Bench:
    """A poller with its driver and clock."""

    def __init__(self, driver: Any, **settings: Any) -> None:
        self.time, self.driver = Time(), driver
        self.poller = NvmlPoller(driver, {"node": "n", "worker": "w"}, self.time, **settings)

    def next(self, after_s: float = 1.0) -> Batch:
        """One round, begun and taken."""
        self.time.now_s += after_s
        self.poller.poll()
        running = self.poller._running
        assert running is not None and running.wait(10)
        return self.poller.poll()


def of(batch: Batch, kind: str) -> list[dict[str, Any]]:
    return [row[kind] | {"device": row["device_id"]} for row in batch.rows if row["kind"] == kind]


def two() -> list[Gpu]:
    return [Gpu("GPU-aa", used=70 * GIB, processes=[(11, 60 * GIB), (99, 9 * GIB)]), Gpu("GPU-bb", processes=[(11, None)])]


def test_memory_and_processes() -> None:
    batch = Bench(FakeNvml(two()), own=lambda: {11: "life"}).next()
    assert of(batch, "device") == [
        {"device": 0, "total_bytes": 80 * GIB, "used_bytes": 70 * GIB, "free_bytes": 10 * GIB, "reserved_bytes": GIB // 2},
        {"device": 1, "total_bytes": 80 * GIB, "used_bytes": 10 * GIB, "free_bytes": 70 * GIB, "reserved_bytes": GIB // 2},
    ]
    own, other, unknown = of(batch, "process")
    assert own == {
        "device": 0, "pid": 11, "name": "/usr/bin/python11", "used_bytes": 60 * GIB,
        "own": True, "owner_incarnation": "life",
    }  # fmt: skip
    assert (other["own"], other["used_bytes"]) == (False, 9 * GIB)
    assert unknown["used_bytes"] is None, "a driver that does not tell is not a process that holds nothing"
    assert batch.notes == [("ok", "nvml answers")]
    assert {row["source"] for row in batch.rows} == {"nvml"}


def test_process_ids_of_another_namespace_belong_to_nobody() -> None:
    first = of(Bench(FakeNvml(two())).next(), "process")[0]
    assert first["own"] is None and first["owner_incarnation"] is None


def test_processes_are_listed_seldom() -> None:
    bench = Bench(FakeNvml(two()))
    bench.next()
    for _ in range(int(PROCESSES_S) - 1):
        assert not of(bench.next(), "process")
    assert of(bench.next(), "process")


def test_slow_calls_are_made_less_often() -> None:
    driver = FakeNvml([Gpu("GPU-aa")])
    bench = Bench(driver)
    listed = driver.nvmlDeviceGetComputeRunningProcesses_v3

    def slow(gpu: Gpu) -> list[SimpleNamespace]:
        bench.time.now_s += 0.5
        return listed(gpu)

    driver.nvmlDeviceGetComputeRunningProcesses_v3 = slow  # type: ignore[method-assign]
    bench.next()
    assert bench.poller._processes_s - bench.time.now_s == pytest.approx(100.0)
    assert bench.poller._memory_s - bench.time.now_s == pytest.approx(1.0)


def test_a_driver_without_version_2_has_no_reserved() -> None:
    (device,) = of(Bench(FakeNvml([Gpu("GPU-aa")], without=("nvmlMemory_v2",))).next(), "device")
    assert device["reserved_bytes"] is None and device["used_bytes"] == 10 * GIB


def test_a_driver_without_mps_mig_or_events() -> None:
    without = ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMigMode", "nvmlEventSetCreate")
    batch = Bench(FakeNvml(two(), without=without)).next()
    assert len(of(batch, "device")) == 2 and len(of(batch, "process")) == 3


def test_a_lost_device_is_a_fault_once_and_the_others_go_on() -> None:
    driver = FakeNvml(two())
    bench = Bench(driver)
    bench.next()
    driver.gpus[0].lost = True
    batch = bench.next()
    assert [device["device"] for device in of(batch, "device")] == [1]
    (fault,) = of(batch, "fault")
    assert (fault["code"], fault["device"]) == ("gpu_lost", 0)
    assert batch.notes[0][0] == "degraded"
    again = bench.next()
    assert not of(again, "fault") and not again.notes


def test_xid() -> None:
    driver = FakeNvml(two())
    driver.events.append(
        SimpleNamespace(device=driver.gpus[1], eventType=pynvml.nvmlEventTypeXidCriticalError, eventData=79)
    )
    (fault,) = of(Bench(driver).next(), "fault")
    assert (fault["code"], fault["detail"], fault["device"]) == ("xid", "Xid 79", 1)


def test_a_call_that_hangs_is_told_and_not_repeated() -> None:
    driver = FakeNvml([Gpu("GPU-aa")])
    released = threading.Event()
    count = driver.nvmlDeviceGetCount

    def hang() -> int:
        released.wait(60)
        return count()

    driver.nvmlDeviceGetCount = hang  # type: ignore[method-assign]
    time = Time()
    poller = NvmlPoller(driver, {"worker": "w"}, time)
    assert not poller.poll().notes
    running = poller._running
    time.now_s += HANG_S
    assert poller.poll().notes == [("degraded", f"nvml has not answered for {HANG_S:.0f} s")]
    time.now_s += HANG_S
    assert not poller.poll().notes
    assert poller._running is running, "a second call would wait behind the first"
    released.set()
    assert running is not None and running.wait(10)
    batch = poller.poll()
    assert of(batch, "device") and batch.notes == [("ok", "nvml answers")]


def test_no_driver_is_asked_once() -> None:
    class Absent(FakeNvml):
        def nvmlInit(self) -> None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    bench = Bench(Absent([]))
    batch = bench.next()
    assert not batch.rows and bench.poller.state == "absent" and batch.notes[0][0] == "absent"
    bench.time.now_s += 1000
    bench.poller.poll()
    assert bench.poller._running is None


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [("GPU-aa", 0), ("GPU-bb", 1)]),
        ("1,0", [("GPU-bb", 0), ("GPU-aa", 1)]),
        ("1", [("GPU-bb", 0)]),
        ("GPU-b", [("GPU-bb", 0)]),
        ("GPU-", []),
        ("0,7,1", [("GPU-aa", 0)]),
        ("", []),
        ("-1", []),
    ],
)
def test_the_worker_counts_its_own_way(visible: str | None, expected: list[tuple[str, int]]) -> None:
    assert [(device.uuid, device.number) for device in devices(FakeNvml(two()), visible)] == expected


def test_a_divided_gpu_stands_for_its_instances() -> None:
    parts = [Gpu("MIG-1", total=10 * GIB, used=GIB), Gpu("MIG-2", total=20 * GIB, used=GIB)]
    driver = FakeNvml([Gpu("GPU-aa", parts=parts)])
    assert [(device.uuid, device.number) for device in devices(driver, None)] == [("MIG-1", None), ("MIG-2", None)]
    (device,) = of(Bench(driver, visible="MIG-2").next(), "device")
    assert (device["device"], device["total_bytes"]) == (0, 20 * GIB)


def test_the_peak_of_a_process_is_told_once_it_is_gone() -> None:
    gpu = Gpu("GPU-aa", processes=[(7, GIB), (8, GIB), (9, GIB)], peaks={7: 79 * GIB, 9: 3 * GIB})
    bench = Bench(FakeNvml([gpu]), own=lambda: {7: "life", 8: "life"})
    assert not any("peak_bytes" in row for row in of(bench.next(), "process"))
    gpu.processes = []
    (dead,) = of(bench.next(PROCESSES_S), "process")
    assert (dead["pid"], dead["peak_bytes"], dead["used_bytes"]) == (7, 79 * GIB, None), "8 was forgotten, 9 is another's"
    assert of(bench.next(PROCESSES_S), "process") == []
