"""Polls NVML for one worker: memory, processes, Xid and ECC events."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.live.nvml.readings import Fields, Own, faults, memory, peak_of_the_dead, processes, subscribe
from oomctl.collectors.live.nvml.visible import Device, devices
from oomctl.collectors.live.poller import DriverPoller, Reading


class NvmlPoller(DriverPoller):
    """Polls NVML for one worker.

    Args:
        api: pynvml, or what stands in for it.
        common: The common columns: node, worker, incarnation.
        clock: `monotonic_s()` and `wall_us()`.
        visible: The worker's CUDA_VISIBLE_DEVICES, or None.
        own: Tells the worker's own processes; None where the driver's process ids are not those of this namespace.
    """

    def __init__(
        self,
        api: Any,
        common: dict[str, Any],
        clock: Any,
        visible: str | None = None,
        own: Callable[[], Own] | None = None,
    ) -> None:
        super().__init__("nvml", common, clock, api.NVMLError)
        self._api = api
        self._visible = visible
        self._own = own
        self._devices: list[Device] | None = None
        self._events: Any = None
        self._listed: dict[str, dict[int, Fields]] = {}

    def _read(self, with_processes: bool) -> Reading:
        api = self._api
        reading = Reading()
        if self._devices is None:
            api.nvmlInit()
            self._devices = devices(api, self._visible)
            self._events = subscribe(api, {id(device.parent): device.parent for device in self._devices}.values())
            reading.found += [
                (device.number, "manifest", {"section": "environment", "key": "device_uuid", "value": device.uuid})
                for device in self._devices
            ]
        begun_s = self._clock.monotonic_s()
        for device in self._devices:
            try:
                reading.found.append((device.number, "device", memory(api, device)))
            except api.NVMLError as error:
                self._failed(device, error, reading)
        if self._events is not None:
            numbers = {device.uuid: device.number for device in self._devices}
            reading.found += [(numbers.get(uuid), "fault", fields) for uuid, fields in faults(api, self._events)]
        middle_s = self._clock.monotonic_s()
        reading.memory_s = middle_s - begun_s
        if with_processes:
            own = self._own() if self._own is not None else None
            for device in self._devices:
                try:
                    listed = processes(api, device, own)
                except api.NVMLError as error:
                    self._failed(device, error, reading)
                    continue
                reading.found += [(device.number, "process", one) for one in [*listed, *self._ended(device, listed)]]
            reading.processes_s = self._clock.monotonic_s() - middle_s
        return reading

    def _ended(self, device: Device, listed: list[Fields]) -> list[Fields]:
        """What the driver's accounting has of processes that may be the worker's and are not listed any more."""
        before, self._listed[device.uuid] = (
            self._listed.get(device.uuid, {}),
            {one["pid"]: one for one in listed if one["own"] is not False},
        )
        found = []
        for pid in before.keys() - {one["pid"] for one in listed}:
            peak = peak_of_the_dead(self._api, device, pid)
            if peak is not None:
                found.append({**before[pid], "used_bytes": None, "peak_bytes": peak})
        return found

    def _absent(self, error: Any) -> bool:
        return error.value in (self._api.NVML_ERROR_LIBRARY_NOT_FOUND, self._api.NVML_ERROR_DRIVER_NOT_LOADED)

    def _failed(self, device: Device, error: Any, reading: Reading) -> None:
        reading.errors[device.uuid] = str(error)
        if error.value == self._api.NVML_ERROR_GPU_IS_LOST:
            reading.lost.add(device.uuid)
            if device.uuid not in self._lost:
                reading.found.append((device.number, "fault", {"code": "gpu_lost", "detail": f"{device.uuid}: {error}"}))
