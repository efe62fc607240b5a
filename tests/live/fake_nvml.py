"""A driver with the interface of pynvml; what it does not define (constants, errors) is pynvml's own."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 1 << 30


@dataclass
class Gpu:
    """One device of the fake."""

    uuid: str
    total: int = 80 * GIB
    used: int = 10 * GIB
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    parts: list["Gpu"] = field(default_factory=list)
    lost: bool = False
    peaks: dict[int, int] = field(default_factory=dict)


class FakeNvml:
    """The calls that the poller makes.

    Args:
        gpus: What there is.
        without: Names of functions that this driver lacks.
    """

    def __init__(self, gpus: list[Gpu], without: tuple[str, ...] = ()) -> None:
        self.gpus = gpus
        self.without = without
        self.events: list[SimpleNamespace] = []
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and callable(getattr(pynvml, name, None)):
            object.__getattribute__(self, "calls").append(name)
            if name in object.__getattribute__(self, "without"):

                def missing(*args: object, **kwargs: object) -> None:
                    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

                return missing
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        found = getattr(pynvml, name)
        if callable(found) and name.startswith("nvml"):
            raise AssertionError(f"{name} would call a real driver")
        return found

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:
        return [int(bool(gpu.parts)), int(bool(gpu.parts))]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, index: int) -> Gpu:
        if index >= len(gpu.parts):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return gpu.parts[index]

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu, version: int | None = None) -> SimpleNamespace:
        if gpu.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        if version and "nvmlMemory_v2" in self.without:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        info = SimpleNamespace(total=gpu.total, used=gpu.used, free=gpu.total - gpu.used)
        if version:
            info.reserved = GIB // 2
        return info

    def nvmlDeviceGetComputeRunningProcesses_v3(self, gpu: Gpu) -> list[SimpleNamespace]:
        if gpu.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.processes]

    def nvmlDeviceGetMPSComputeRunningProcesses_v3(self, gpu: Gpu) -> list[SimpleNamespace]:
        return []

    def nvmlSystemGetProcessName(self, pid: int) -> bytes:
        return f"/usr/bin/python{pid} --api-key=secret".encode()

    def nvmlDeviceGetAccountingStats(self, gpu: Gpu, pid: int) -> SimpleNamespace:
        if pid not in gpu.peaks:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return SimpleNamespace(maxMemoryUsage=gpu.peaks[pid])

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlDeviceGetSupportedEventTypes(self, gpu: Gpu) -> int:
        return int(pynvml.nvmlEventTypeXidCriticalError)

    def nvmlDeviceRegisterEvents(self, gpu: Gpu, types: int, events: object) -> None:
        assert types == pynvml.nvmlEventTypeXidCriticalError

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> SimpleNamespace:
        assert timeout_ms == 0
        if not self.events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return self.events.pop(0)
