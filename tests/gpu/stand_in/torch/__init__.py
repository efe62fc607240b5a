"""A stand-in for the few names of PyTorch that benchmarks/gpu_smoke.py uses, with an allocator that behaves like it.

Written from PyTorch's documentation of its caching allocator: blocks over 10 MiB get a segment of their own, smaller ones
share one of 20 MiB; a segment goes back to the device only when it is wholly free; expandable segments join all holes.
It shows that the script runs to its end and that its failures are told. It is no GPU.
"""

import os
import pathlib
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

__version__ = "0.0-stand-in"
uint8 = "uint8"
MIB = 1 << 20
SEGMENT, LARGE, TOTAL = 20 * MIB, 10 * MIB, 80 << 30


class OutOfMemoryError(RuntimeError):
    """As torch.OutOfMemoryError."""


class Segment:
    def __init__(self, size: int, private: bool) -> None:
        self.size, self.private = size, private
        self.used = 0
        self.blocks = 0


class Tensor:
    def __init__(self, segment: Segment, size: int) -> None:
        self.segment, self.size = segment, size

    def __del__(self) -> None:
        self.segment.used -= self.size
        self.segment.blocks -= 1


class Allocator:
    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.limit = TOTAL
        self.retries = self.ooms = 0
        self.private = False
        self.observers: list[Any] = []
        self.expandable = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")

    @property
    def reserved(self) -> int:
        return sum(segment.used if self.expandable else segment.size for segment in self.segments)

    @property
    def allocated(self) -> int:
        return sum(segment.used for segment in self.segments)

    def take(self, size: int) -> Tensor:
        segment = self._find(size) or self._new(size)
        if segment is None:
            self.retries += 1
            self.segments = [one for one in self.segments if one.blocks]
            segment = self._find(size) or self._new(size)
        if segment is None:
            raise self._failure(size)
        segment.used += size
        segment.blocks += 1
        return Tensor(segment, size)

    def _find(self, size: int) -> Segment | None:
        if size > LARGE or self.expandable:
            return None
        # A hole is never split over two blocks: each half of a segment is one block's.
        fits = (one for one in self.segments if one.private == self.private and one.size == SEGMENT and one.blocks < 2)
        return next(fits, None)

    def _new(self, size: int) -> Segment | None:
        room = size if size > LARGE or self.expandable else SEGMENT
        if self.reserved + room > self.limit:
            return None
        self.segments.append(Segment(room, self.private))
        return self.segments[-1]

    def _failure(self, size: int) -> OutOfMemoryError:
        self.ooms += 1
        for observe in self.observers:
            # With a limit, torch says it as the total, beside what the device has free.
            observe(0, size, self.limit, TOTAL - self.reserved)
        gib = 1 << 30
        return OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size / MIB:.2f} MiB. GPU 0 has a total capacity of {TOTAL / gib:.2f} "
            f"GiB of which {(TOTAL - self.reserved) / gib:.2f} GiB is free. {self.limit / gib:.2f} GiB allowed; Of the "
            f"allocated memory {self.allocated / gib:.2f} GiB is allocated by PyTorch, and "
            f"{(self.reserved - self.allocated) / MIB:.2f} MiB is reserved by PyTorch but unallocated."
        )

    def stats(self) -> dict[str, Any]:
        private = sum(segment.size for segment in self.segments if segment.private)
        return {
            "allocated_bytes.all.current": self.allocated,
            "reserved_bytes.all.current": self.reserved,
            "num_alloc_retries": self.retries,
            "num_ooms": self.ooms,
            "reserved_bytes_by_private_pools": {"(0, 1)": private},
        }


_it = Allocator()


@contextmanager
def _graph(_graph: Any) -> Iterator[None]:
    _it.private = True
    try:
        yield
    finally:
        _it.private = False


def _limit(fraction: float) -> None:
    _it.limit = round(fraction * TOTAL)


def empty(size: int, dtype: str, device: str) -> Tensor:
    """Bytes of the device."""
    assert (dtype, device) == (uint8, "cuda")
    return _it.take(size)


_C = SimpleNamespace(_cuda_attach_out_of_memory_observer=_it.observers.append)
cuda = SimpleNamespace(
    init=lambda: None,
    is_available=lambda: True,
    is_initialized=lambda: True,
    mem_get_info=lambda: (TOTAL - _it.reserved, TOTAL),
    memory_stats=_it.stats,
    memory_allocated=lambda *_: _it.allocated,
    memory_reserved=lambda *_: _it.reserved,
    set_per_process_memory_fraction=_limit,
    graph=_graph,
    CUDAGraph=object,
    memory=SimpleNamespace(
        _record_memory_history=lambda max_entries: None,
        _dump_snapshot=lambda path: pathlib.Path(path).write_bytes(pickle.dumps({"segments": [], "device_traces": []})),
    ),
)
sys.modules["torch.cuda"] = cuda  # type: ignore[assignment]
