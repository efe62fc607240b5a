"""PyTorch's own word that an allocation failed, on whatever thread, as often as the allocator says so."""

import os
import sys
import threading
from typing import Any

from oomctl.collectors.agent.guard import Guard
from oomctl.collectors.agent.kinds import OOM, RESOURCES
from oomctl.collectors.agent.layout import NULL_I64, NULL_U8, pack_texts
from oomctl.collectors.agent.rings import Rings, tell
from oomctl.collectors.agent.settings import Settings

HISTORY_ENTRIES = 20_000
"""Of some KB each; the library's own default has no bound."""
MAX_SNAPSHOTS = 2

_lock = threading.Lock()
_snapshots = 0


def attach(rings: Rings, guard: Guard, settings: Settings) -> None:
    """Observe the CUDA caching allocator, once it is initialised; start its bounded history if that is wanted.

    The hook is torch's private `_cuda_attach_out_of_memory_observer(fn(device, requested, total, free))`; where a version
    has none, the exception that follows is recorded all the same.
    """
    torch: Any = sys.modules["torch"]
    hook = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if hook is None:
        guard.absent(["torch._C._cuda_attach_out_of_memory_observer"])
        return

    def observe(device: int, requested: int, total: int, free: int) -> None:
        try:
            tail = pack_texts("torch", "observed", f"device {device}")
            if free > total:
                # Under set_per_process_memory_fraction, torch gives the limit as the total, beside the device's own free.
                total = NULL_I64
            figures = requested, total, free, torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
            rings.mine().write(OOM, tail, RESOURCES.index("device"), NULL_U8, 0, *figures, NULL_I64)
            if settings.snapshot:
                _write_snapshot(torch, settings)
        except Exception as error:
            guard.failed("observer", error)

    hook(observe)
    if settings.snapshot:
        torch.cuda.memory._record_memory_history(max_entries=HISTORY_ENTRIES)


def _write_snapshot(torch: Any, settings: Settings) -> None:
    global _snapshots
    with _lock:
        if _snapshots >= MAX_SNAPSHOTS:
            return
        _snapshots += 1
        path = settings.folder / f"snapshot-{os.getpid()}-{_snapshots}.pickle"
    # Made by us first: torch would follow a link that another user of the folder put there, and lets all others read.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    torch.cuda.memory._dump_snapshot(str(path))
    tell(f"allocator snapshot written to {path}")
