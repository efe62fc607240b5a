"""What would have helped, by cause: only what is not set already, and no estimate told as if it had been tried."""

from dataclasses import replace
from typing import Literal

from oomctl.analyzers.allocator.model.settings import UNLIMITED, Settings, settings_of
from oomctl.analyzers.allocator.model.whatif import ask
from oomctl.schemas.heap import Snapshot

Cause = Literal[
    "limit", "allocator_anomaly", "flush_skipped", "driver_refusal", "fragmentation", "private_pools", "other_streams",
    "non_torch", "other_process", "exhaustion",
]  # fmt: skip
EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
ESTIMATE = " (an estimate: `oomctl snapshot whatif FILE --expandable-segments` tries it)"
TRIED_EVENTS = 2000
"""Histories so long are replayed under the setting at once: that takes a tenth of a second."""
_SPLIT = "max_split_size_mb below the size of the large requests"
_HELPS: dict[Cause, tuple[str, ...]] = {
    "limit": ("raise the memory fraction that the process set on itself",),
    "allocator_anomaly": ("was it taken in an OOM observer? If so, see pytorch#189504, or unset throw_on_cudamalloc_oom",),
    "flush_skipped": ("capture fewer or smaller graphs, or empty the cache before the capture begins",),
    "driver_refusal": (
        "did the process set itself a memory fraction? No snapshot tells that: try `snapshot FILE --limit SIZE`",
        "the device had room: look for limits of address space, fabric or driver, not for memory",
    ),
    "fragmentation": (
        EXPANDABLE + ESTIMATE,
        _SPLIT,
        "allocate the large and lasting first; make requests of fewer different sizes (roundup_power2_divisions)",
    ),
    "private_pools": ("capture fewer graph sizes, or let the graphs share one pool",),
    "other_streams": ("allocate on the stream that uses the memory, or wait for record_stream's events before",),
    "non_torch": ("look at memory outside PyTorch: collectives, libraries' workspaces, graphs' own memory",),
    "other_process": ("move the other processes off the device, or lower what they may take",),
    "exhaustion": ("ask for less at once (a smaller batch, chunk or cache), or spread the model over more devices",),
}


def advice(causes: list[Cause], settings: Settings, barred: bool = False) -> list[str]:
    """What would have helped.

    Args:
        causes: That were found, the first one first.
        settings: Of the allocator: what is set already is not advised.
        barred: Whether max_split_size kept a free block that is large enough from the request.
    """
    found = ["raise max_split_size_mb: it bars a free block that is large enough"] if barred else []
    for text in (text for cause in causes for text in _HELPS[cause]):
        if text.startswith(EXPANDABLE) and settings.expandable:
            continue
        if text == _SPLIT and (settings.expandable or settings.max_split_bytes != UNLIMITED):
            continue
        found.append(text)
    return found


def tried(helps: list[str], snapshot: Snapshot, device: int, limit_bytes: int | None) -> list[str]:
    """The same, with expandable segments tried on the model where it follows the whole history, which must be short."""
    if EXPANDABLE + ESTIMATE not in helps or len(snapshot.histories[device]) > TRIED_EVENTS:
        return helps
    question = ask(snapshot, device, replace(settings_of(snapshot.settings, limit_bytes), expandable=True))
    if question.model.parted_at is not None or question.status not in ("fits", "does_not_fit"):
        return helps
    others = [text for text in helps if text != EXPANDABLE + ESTIMATE]
    if question.status == "does_not_fit":
        return others
    return [f"{EXPANDABLE} (tried on a model that follows the whole history: what failed is served)", *others]
