"""Snapshots with known truth: programs run on the model of the allocator, written as PyTorch lays them out."""

import itertools
from typing import Any

from oomctl.analyzers.allocator.model.allocator import Allocator, OutOfMemory
from oomctl.analyzers.allocator.model.device import Device
from oomctl.analyzers.allocator.model.settings import UNLIMITED, Settings
from oomctl.analyzers.allocator.model.state import state
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.schemas.heap import DEFAULT_POOL, PoolId, Snapshot

MIB = 1 << 20
FUNCTIONS = {"weights": "load_weights", "kv": "allocate_kv_cache", "graph": "capture_model", "step": "execute_model"}


class Run:
    """A program on one device: allocations by name, its history kept as the real allocator records it.

    Args:
        room_bytes: What the device has for it.
        settings: Of the allocator.
        keep: How many of the newest entries the history keeps.
    """

    def __init__(self, room_bytes: int | None = None, settings: Settings | None = None, keep: int | None = None) -> None:
        self.device = Device(room_bytes)
        self.trace: list[dict[str, Any]] = []
        self.totals: list[tuple[int, int]] = []
        """(reserved, active) after each entry, as the model counts them."""
        self.allocator = Allocator(self.device, settings or Settings(), self._segment)
        self.keep = keep
        self._clock = itertools.count(1_700_000_000_000_000)
        self._frames: dict[str, list[dict[str, Any]]] = {}
        self._part = "step"

    def alloc(self, size: int, part: str = "step", stream: int = 0, pool: PoolId = DEFAULT_POOL) -> int | None:
        """Address of a block; None where it did not fit, which is recorded."""
        self._part = part
        try:
            block = self.allocator.malloc(size, stream, pool)
        except OutOfMemory as error:
            self._add("oom", None, error.block_bytes, stream, pool, device_free=self.device.free_bytes or 0)
            return None
        self._add("alloc", block.address, size, stream, pool)
        return block.address

    def free(self, address: int, used_elsewhere: bool = False) -> None:
        """Free a block; one that another stream uses stays pending."""
        block = self.allocator.live[address]
        pool, stream = block.pool.key[0], block.stream
        size = block.requested
        block.allocated, block.pending = False, True
        self._add("free_requested", address, size, stream, pool)
        if not used_elsewhere:
            self.allocator.free(address)
            self._add("free_completed", address, size, stream, pool)

    def complete(self, address: int) -> None:
        """The other stream is done with a pending block."""
        block = self.allocator.live[address]
        size, stream, pool = block.requested, block.stream, block.pool.key[0]
        self.allocator.free(address)
        self._add("free_completed", address, size, stream, pool)

    def document(self, pools: bool = True) -> dict[str, Any]:
        """As torch.cuda.memory._snapshot() gives it; `pools` as from PyTorch 2.12 on."""
        settings = self.allocator.settings
        trace = self.trace[-self.keep :] if self.keep is not None else list(self.trace)
        if not pools:
            trace = [{key: value for key, value in entry.items() if key != "pool_id"} for entry in trace]
        return {
            "segments": [self._told(segment) for segment in state(self.allocator)],
            "device_traces": [trace],
            "allocator_settings": {
                "max_split_size": -1 if settings.max_split_bytes == UNLIMITED else settings.max_split_bytes,
                "garbage_collection_threshold": settings.gc_threshold,
                "expandable_segments": settings.expandable,
                "roundup_power2_divisions": {str(1 << n): value for n, value in enumerate(settings.divisions)},
            },
        }

    def snapshot(self, pools: bool = True) -> Snapshot:
        """The document, read."""
        return read_document(self.document(pools), "made", 1 << 30)

    @staticmethod
    def _told(segment: Any) -> dict[str, Any]:
        return {
            "device": segment.device,
            "address": segment.address,
            "total_size": segment.total_bytes,
            "stream": segment.stream,
            "segment_type": segment.size_class,
            "segment_pool_id": segment.pool,
            "is_expandable": segment.expandable,
            "frames": [],
            "blocks": [
                {
                    "address": block.address,
                    "size": block.size_bytes,
                    "requested_size": block.requested_bytes,
                    "state": block.state,
                    "frames": [],
                }
                for block in segment.blocks
            ],
        }

    def _segment(self, action: str, address: int, size: int, stream: int, pool: PoolId) -> None:
        self._add(action, address, size, stream, pool)

    def _add(self, action: str, address: int | None, size: int, stream: int, pool: PoolId, **more: Any) -> None:
        entry = {
            "action": action, "size": size, "stream": stream, "time_us": next(self._clock), "pool_id": pool,
            "frames": self._stack(self._part),
        }  # fmt: skip
        self.trace.append(entry | ({"addr": address} if address is not None else {}) | more)
        self.totals.append((self.allocator.reserved_bytes, self.allocator.active_bytes))

    def _stack(self, part: str) -> list[dict[str, Any]]:
        if part not in self._frames:
            name = FUNCTIONS.get(part, part)
            self._frames[part] = [{"filename": f"/app/engine/{part}.py", "line": 10, "name": name}]
        return self._frames[part]
