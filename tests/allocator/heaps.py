"""Small snapshots written as PyTorch lays them out, of this project's own making."""

from typing import Any

MIB = 1 << 20


def block(size: int, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    return {"size": size, "requested_size": size, "state": state, "frames": []} | more


def free(size: int) -> dict[str, Any]:
    return block(size, "inactive", requested_size=0)


def segment(address: int, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A segment whose blocks lie one behind the other."""
    at, placed = address, []
    for entry in blocks:
        placed.append(entry | {"address": at})
        at += entry["size"]
    return {
        "device": 0,
        "address": address,
        "total_size": at - address,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": placed,
    } | more


def oom(size: int, device_free: int, **more: Any) -> dict[str, Any]:
    return {"action": "oom", "size": size, "device_free": device_free, "stream": 0, "time_us": 5, "frames": []} | more


def document(*segments: dict[str, Any], trace: list[dict[str, Any]] | None = None, **settings: Any) -> dict[str, Any]:
    return {"segments": list(segments), "device_traces": [trace or []], "allocator_settings": settings}
