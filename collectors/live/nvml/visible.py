"""Which devices a worker sees, and under which number: CUDA_VISIBLE_DEVICES against the driver's list."""

from dataclasses import dataclass
from typing import Any

from oomctl.schemas.numbers import whole


@dataclass(frozen=True)
class Device:
    """A device, or a MIG instance.

    Attributes:
        handle: The driver's.
        uuid: GPU-... or MIG-...
        number: As the worker counts; None where not all of them are known.
        parent: The driver's handle of the whole GPU; the device's own for one that is not divided.
    """

    handle: Any
    uuid: str
    number: int | None
    parent: Any


def devices(api: Any, visible: str | None) -> list[Device]:
    """The devices that a worker may use.

    Args:
        api: pynvml, or what stands in for it.
        visible: The worker's CUDA_VISIBLE_DEVICES; None if it is not set or could not be read.

    Returns:
        In the worker's order. A list by numbers follows the driver's order only if CUDA counts by PCI bus, as it does
        where all devices are alike (CUDA_DEVICE_ORDER). A GPU in MIG mode stands for its instances.
    """
    found: list[Device] = []
    for index in range(api.nvmlDeviceGetCount()):
        handle = api.nvmlDeviceGetHandleByIndex(index)
        parts = _instances(api, handle)
        found += parts or [Device(handle, _text(api.nvmlDeviceGetUUID(handle)), index, handle)]
    if visible is None:
        return found
    if any(device.uuid.startswith("MIG") for device in found):
        by_number: list[Device | None] = [None] * len(found)
    else:
        by_number = list(found)
    chosen: list[Device] = []
    for word in filter(None, (part.strip() for part in visible.split(","))):
        match = _match(word, found, by_number)
        if match is None:
            # CUDA ignores everything from the first that it cannot resolve.
            break
        chosen.append(Device(match.handle, match.uuid, len(chosen), match.parent))
    return chosen


def _match(word: str, found: list[Device], by_number: list[Device | None]) -> Device | None:
    if (number := whole(word)) is not None:
        return by_number[number] if number < len(by_number) else None
    matches = [device for device in found if device.uuid.startswith(word)]
    return matches[0] if len(matches) == 1 else None


def _instances(api: Any, handle: Any) -> list[Device]:
    """MIG instances of a GPU; none if it is not divided, or the driver knows no MIG."""
    try:
        if api.nvmlDeviceGetMigMode(handle)[0] != api.NVML_DEVICE_MIG_ENABLE:
            return []
        most = api.nvmlDeviceGetMaxMigDeviceCount(handle)
    except api.NVMLError:
        return []
    found = []
    for index in range(most):
        try:
            part = api.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except api.NVMLError:
            continue
        found.append(Device(part, _text(api.nvmlDeviceGetUUID(part)), None, handle))
    return found


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
