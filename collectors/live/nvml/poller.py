"""Polls the devices of one worker: paced by what the driver's calls cost, and never waited for."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from oomctl.collectors.live.background import Call
from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.nvml.readings import Fields, Owner, faults, memory, processes, subscribe
from oomctl.collectors.live.nvml.visible import Device, devices
from oomctl.schemas.rows import Row, make_row

MEMORY_S = 1.0
PROCESSES_S = 10.0
BUSY_RATIO = 0.005
"""Share of the time that the driver may spend on us; slower calls are made less often."""
HANG_S = 10.0


@dataclass
class Reading:
    """What one round of calls gave.

    Attributes:
        found: (device's number as the worker counts, kind, fields).
        errors: UUID to what the driver said.
        lost: UUIDs of devices that fell off the bus.
        memory_s: How long the memory calls took.
        processes_s: How long the process lists took; None if they were not asked for.
    """

    found: list[tuple[int | None, str, Fields]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    memory_s: float = 0.0
    processes_s: float | None = None


class NvmlPoller:
    """Polls NVML for one worker.

    Args:
        api: pynvml, or what stands in for it.
        common: The common columns: node, worker, incarnation.
        clock: `monotonic_s()` and `wall_us()`.
        visible: The worker's CUDA_VISIBLE_DEVICES, or None.
        owner: Tells the worker's own processes; None where the driver's process ids are not those of this namespace.
        first_seq: Number of the last row that an earlier poller wrote.

    Attributes:
        state: "", then ok, failed, absent (no driver: it is not asked again) or hangs.
    """

    def __init__(
        self,
        api: Any,
        common: dict[str, Any],
        clock: Any,
        visible: str | None = None,
        owner: Owner | None = None,
        first_seq: int = 0,
    ) -> None:
        self.name = "nvml"
        self.state = ""
        self._api = api
        self._clock = clock
        self._visible = visible
        self._owner = owner
        self._seq = first_seq
        self._common = {**common, "stream": f"{common.get('worker', '')}/nvml", "source": "nvml", "ts_quality": "exact"}
        self._devices: list[Device] | None = None
        self._events: Any = None
        self._running: Call[Reading] | None = None
        self._begun_s = 0.0
        self._memory_s = self._processes_s = clock.monotonic_s()
        self._lost: set[str] = set()
        self._errors: dict[str, str] = {}

    def poll(self) -> Batch:
        """What came since the last call; begins a round of calls when one is due. Never waits."""
        batch = Batch()
        now_s = self._clock.monotonic_s()
        if self._running is not None:
            if not self._running.done:
                if now_s - self._begun_s >= HANG_S:
                    self._turn("hangs", f"the driver has not answered for {HANG_S:.0f} s", batch)
                return batch
            running, self._running = self._running, None
            self._take(running, batch, now_s)
        if self.state != "absent" and now_s >= self._memory_s:
            with_processes = now_s >= self._processes_s
            self._begun_s = now_s
            self._running = Call(partial(self._read, with_processes), "oomctl-nvml")
        return batch

    @property
    def seq(self) -> int:
        """Number of the last row."""
        return self._seq

    def close(self) -> None:
        """Calls that run end by themselves, or never: nobody waits for them."""

    def _read(self, with_processes: bool) -> Reading:
        """In the thread: ask the driver."""
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
            for device in self._devices:
                try:
                    reading.found += [(device.number, "process", one) for one in processes(api, device, self._owner)]
                except api.NVMLError as error:
                    self._failed(device, error, reading)
            reading.processes_s = self._clock.monotonic_s() - middle_s
        return reading

    def _failed(self, device: Device, error: Any, reading: Reading) -> None:
        reading.errors[device.uuid] = str(error)
        if error.value == self._api.NVML_ERROR_GPU_IS_LOST:
            reading.lost.add(device.uuid)
            if device.uuid not in self._lost:
                reading.found.append((device.number, "fault", {"code": "gpu_lost", "detail": f"{device.uuid}: {error}"}))

    def _take(self, running: Call[Reading], batch: Batch, now_s: float) -> None:
        self._memory_s = now_s + MEMORY_S
        try:
            reading = running.result()
        except self._api.NVMLError as error:
            absent = error.value in (self._api.NVML_ERROR_LIBRARY_NOT_FOUND, self._api.NVML_ERROR_DRIVER_NOT_LOADED)
            self._turn("absent" if absent else "failed", f"NVML: {error}", batch)
            self._memory_s = now_s + PROCESSES_S
            return
        ts = self._clock.wall_us()
        batch.rows += [self._row(ts, kind, fields, number) for number, kind, fields in reading.found]
        self._lost = reading.lost
        self._memory_s = now_s + max(MEMORY_S, reading.memory_s / BUSY_RATIO)
        if reading.processes_s is not None:
            self._processes_s = now_s + max(PROCESSES_S, reading.processes_s / BUSY_RATIO)
        if reading.errors != self._errors and reading.errors:
            batch.notes.append(
                ("degraded", "NVML: " + "; ".join(f"{uuid}: {why}" for uuid, why in sorted(reading.errors.items())))
            )
        self._errors = reading.errors
        self._turn("ok", "NVML answers", batch)

    def _row(self, ts: int, kind: str, fields: Fields, number: int | None) -> Row:
        self._seq += 1
        common = {**self._common, "ts": ts, "seq": self._seq, "quality": "measured", "device_id": number}
        return make_row(kind, fields, common)

    def _turn(self, state: str, detail: str, batch: Batch) -> None:
        if state != self.state:
            self.state = state
            batch.notes.append(("ok" if state == "ok" else "absent" if state == "absent" else "degraded", detail))
