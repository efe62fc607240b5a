"""AMD's poller against a stand-in for the amdsmi module."""

from types import SimpleNamespace
from typing import Any

from oomctl.collectors.live.amdsmi import AmdSmiPoller
from oomctl.collectors.live.batch import Batch
from tests.live.clock import Time

GIB = 1 << 30


class AmdSmiError(Exception):
    """What the module raises."""


class FakeAmdSmi:
    """Two devices; the second can fail."""

    AmdSmiException = AmdSmiError
    AmdSmiMemoryType = SimpleNamespace(VRAM="vram")

    def __init__(self, present: bool = True, second: bool = True, lists: bool = True) -> None:
        self.present, self.second, self.lists = present, second, lists

    def amdsmi_init(self) -> None:
        if not self.present:
            raise AmdSmiError("AMDSMI_STATUS_NOT_FOUND")

    def amdsmi_get_processor_handles(self) -> list[str]:
        return ["a", "b"]

    def amdsmi_get_gpu_memory_total(self, handle: str, kind: str) -> int:
        if handle == "b" and not self.second:
            raise AmdSmiError("busy")
        return 192 * GIB

    def amdsmi_get_gpu_memory_usage(self, handle: str, kind: str) -> int:
        return 100 * GIB

    def amdsmi_get_gpu_process_list(self, handle: str) -> list[Any]:
        if not self.lists:
            raise AmdSmiError("AMDSMI_STATUS_NO_PERM")
        return [
            {"name": "python3", "pid": 9, "memory_usage": {"vram_mem": 90 * GIB}},
            {"pid": 10, "memory_usage": None},
            "?",
        ]


def polled(api: FakeAmdSmi) -> tuple[AmdSmiPoller, Batch]:
    poller = AmdSmiPoller(api, {"worker": "w"}, Time())
    poller.poll()
    running = poller._running
    assert running is not None and running.wait(10)
    return poller, poller.poll()


def of(batch: Batch, kind: str) -> list[dict[str, Any]]:
    return [row[kind] for row in batch.rows if row["kind"] == kind]


def test_memory_and_processes() -> None:
    _, batch = polled(FakeAmdSmi())
    assert of(batch, "device") == [{"total_bytes": 192 * GIB, "used_bytes": 100 * GIB}] * 2
    assert [row["device_id"] for row in batch.rows if row["kind"] == "device"] == [0, 1]
    assert of(batch, "process")[:2] == [
        {"pid": 9, "name": "python3", "used_bytes": 90 * GIB},
        {"pid": 10, "name": None, "used_bytes": None},
    ]
    assert {row["source"] for row in batch.rows} == {"amdsmi"}


def test_a_device_that_fails_and_lists_that_are_not_permitted() -> None:
    _, batch = polled(FakeAmdSmi(second=False, lists=False))
    assert len(of(batch, "device")) == 1 and not of(batch, "process")
    assert batch.notes[0] == ("degraded", "amdsmi: device 1: busy")


def test_no_driver() -> None:
    poller, batch = polled(FakeAmdSmi(present=False))
    assert poller.state == "absent" and not batch.rows
