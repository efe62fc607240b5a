"""One reading of a device, of its processes, and of its events: fields of rows, NULL where the driver does not tell."""

from collections.abc import Iterable, Mapping
from typing import Any

from oomctl.collectors.live.nvml.visible import Device

Fields = dict[str, Any]
Own = Mapping[int, str | None]
"""The worker's own processes: pid to the life that it belongs to."""


def memory(api: Any, device: Device) -> Fields:
    """Fields of a device row.

    Whether `used` includes `reserved` differs between drivers, so all are kept as they come and nothing is subtracted.

    Raises:
        NVMLError: If the driver has no answer at all.
    """
    try:
        info = api.nvmlDeviceGetMemoryInfo(device.handle, version=api.nvmlMemory_v2)
        reserved = int(info.reserved)
    except api.NVMLError as error:
        if error.value not in (
            api.NVML_ERROR_FUNCTION_NOT_FOUND,
            api.NVML_ERROR_NOT_SUPPORTED,
            api.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        ):
            raise
        info, reserved = api.nvmlDeviceGetMemoryInfo(device.handle), None
    return {
        "total_bytes": int(info.total),
        "used_bytes": int(info.used),
        "free_bytes": int(info.free),
        "reserved_bytes": reserved,
    }


def processes(api: Any, device: Device, own: Own | None) -> list[Fields]:
    """Fields of process rows.

    Args:
        api: pynvml.
        device: Whose processes.
        own: None where the driver's process ids are not ours, as in most containers.

    Raises:
        NVMLError: If the driver has no answer at all.
    """
    found: dict[int, Fields] = {}
    for listed in (api.nvmlDeviceGetComputeRunningProcesses_v3, api.nvmlDeviceGetMPSComputeRunningProcesses_v3):
        try:
            running = listed(device.handle)
        except api.NVMLError as error:
            if listed is api.nvmlDeviceGetComputeRunningProcesses_v3:
                raise
            if error.value not in (api.NVML_ERROR_FUNCTION_NOT_FOUND, api.NVML_ERROR_NOT_SUPPORTED):
                raise
            continue
        for process in running:
            found[process.pid] = {
                "pid": process.pid,
                "name": _name(api, process.pid),
                "used_bytes": process.usedGpuMemory,
                "own": None if own is None else process.pid in own,
                "owner_incarnation": None if own is None else own.get(process.pid),
            }
    return list(found.values())


def peak_of_the_dead(api: Any, device: Device, pid: int) -> int | None:
    """The most device memory that a process held, from the driver's accounting; it outlives the process.

    Returns:
        Bytes; None where accounting is off, or the process was forgotten.
    """
    try:
        peak = api.nvmlDeviceGetAccountingStats(device.parent, pid).maxMemoryUsage
    except api.NVMLError:
        return None
    return int(peak) if peak else None


def subscribe(api: Any, handles: Iterable[Any]) -> Any:
    """An event set for what says that a device, not a program, is to blame; None where the driver has none.

    Args:
        api: pynvml.
        handles: Of whole GPUs.
    """
    names = ("nvmlEventTypeXidCriticalError", "nvmlEventTypeDoubleBitEccError", "nvmlEventTypeSingleBitEccErrorStorm")
    wanted = 0
    for name in names:
        wanted |= getattr(api, name, 0)
    try:
        events = api.nvmlEventSetCreate()
        for handle in handles:
            supported = api.nvmlDeviceGetSupportedEventTypes(handle)
            api.nvmlDeviceRegisterEvents(handle, wanted & supported, events)
    except api.NVMLError:
        return None
    return events


def faults(api: Any, events: Any) -> list[tuple[str, Fields]]:
    """(UUID of the GPU, fields of a fault row) of what happened since the last call; never waits."""
    found: list[tuple[str, Fields]] = []
    while len(found) < 100:
        try:
            event = api.nvmlEventSetWait_v2(events, 0)
        except api.NVMLError:
            break
        uuid = api.nvmlDeviceGetUUID(event.device)
        if event.eventType == api.nvmlEventTypeXidCriticalError:
            fields = {"code": "xid", "detail": f"Xid {event.eventData}"}
        else:
            fields = {"code": "ecc", "detail": f"event type {event.eventType:#x}, {event.eventData}"}
        found.append((uuid.decode() if isinstance(uuid, bytes) else uuid, fields))
    return found


def _name(api: Any, pid: int) -> str | None:
    try:
        name = api.nvmlSystemGetProcessName(pid)
    except api.NVMLError:
        return None
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    # Of a whole command line only the program: arguments may hold keys.
    return text.split(" ")[0][:200] or None
