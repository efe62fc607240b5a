"""AMD's devices, by the amdsmi package (extra `[amd]`): memory of each device and who holds it.

Names and units as of amdsmi 7.0.2: amdsmi_get_gpu_memory_total and _usage give bytes. A process list names other users'
processes only to root.
"""

from typing import Any

from oomctl.collectors.live.poller import DriverPoller, Reading


class AmdSmiPoller(DriverPoller):
    """Polls amdsmi for one worker.

    Args:
        api: The module amdsmi, or what stands in for it.
        common: The common columns: node, worker, incarnation.
        clock: `monotonic_s()` and `wall_us()`.
    """

    def __init__(self, api: Any, common: dict[str, Any], clock: Any) -> None:
        super().__init__("amdsmi", common, clock, api.AmdSmiException)
        self._api = api
        self._handles: list[Any] | None = None

    def _read(self, with_processes: bool) -> Reading:
        api = self._api
        reading = Reading()
        if self._handles is None:
            api.amdsmi_init()
            self._handles = list(api.amdsmi_get_processor_handles())
        vram = api.AmdSmiMemoryType.VRAM
        begun_s = self._clock.monotonic_s()
        for number, handle in enumerate(self._handles):
            try:
                total, used = api.amdsmi_get_gpu_memory_total(handle, vram), api.amdsmi_get_gpu_memory_usage(handle, vram)
            except api.AmdSmiException as error:
                reading.errors[f"device {number}"] = str(error)
                continue
            # Free is not told; it is left NULL rather than mixed with what other drivers mean by it.
            reading.found.append((number, "device", {"total_bytes": int(total), "used_bytes": int(used)}))
        middle_s = self._clock.monotonic_s()
        reading.memory_s = middle_s - begun_s
        if with_processes:
            for number, handle in enumerate(self._handles):
                reading.found += [(number, "process", fields) for fields in self._processes(handle)]
            reading.processes_s = self._clock.monotonic_s() - middle_s
        return reading

    def _absent(self, error: Exception) -> bool:
        # Without a device, or without a driver, initialisation fails: asking again changes nothing.
        return self._handles is None

    def _processes(self, handle: Any) -> list[dict[str, Any]]:
        try:
            listed = self._api.amdsmi_get_gpu_process_list(handle)
        except self._api.AmdSmiException:
            return []
        return [
            {
                "pid": process.get("pid"),
                "name": str(process.get("name") or "")[:200] or None,
                "used_bytes": (process.get("memory_usage") or {}).get("vram_mem"),
            }
            for process in listed
            if isinstance(process, dict)
        ]
