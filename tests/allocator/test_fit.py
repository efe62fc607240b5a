"""The fit test: each cause with its look-alike, and brute force on small heaps."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.analyzers.allocator.fit import Fit, Request, fit, oom_request
from oomctl.analyzers.allocator.state import pools
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.schemas.heap import Snapshot
from tests.allocator.heaps import MIB, block, document, free, oom, segment


def _snapshot(*segments: dict[str, Any], trace: list[dict[str, Any]] | None = None, **options: Any) -> Snapshot:
    return read_document(document(*segments, trace=trace, **options), "made", 0)


def _holes(count: int, **more: Any) -> list[dict[str, Any]]:
    return [segment((n + 1) << 40, block(16 * MIB), free(24 * MIB), **more) for n in range(count)]


def _why(*segments: dict[str, Any], entry: dict[str, Any] | None = None, **more: Any) -> Fit:
    options = {key: more.pop(key) for key in ("max_split_size",) if key in more}
    snapshot = _snapshot(*segments, trace=[entry or oom(64 * MIB, 8 * MIB)], **options)
    asked = oom_request(snapshot, 0)
    assert asked is not None
    return fit(snapshot, Request(**{name: getattr(asked, name) for name in Request.__struct_fields__} | more))


def test_fragmentation_and_too_few_holes() -> None:
    found = _why(*_holes(4))
    assert (found.cause, found.short_bytes) == ("fragmentation", 56 * MIB)
    assert next(m for m in found.margins if m.cause == "fragmentation").reclaim_bytes == 96 * MIB
    assert _why(*_holes(2)).cause == "exhaustion"


def test_expandable_segments_unmap_whole_pages() -> None:
    """The same holes would have been given back: only what is no whole page counts."""
    whole = _why(*_holes(4, is_expandable=True))  # 16 to 40 MiB holds the page from 20 to 40
    assert (whole.releasable_bytes, whole.cause) == (80 * MIB, "allocator_anomaly")
    parts = [segment((n + 1) << 40, block(22 * MIB), free(16 * MIB), is_expandable=True) for n in range(4)]
    assert (found := _why(*parts)).releasable_bytes == 0
    assert found.cause == "fragmentation"


def test_anomaly_and_a_block_that_max_split_size_bars() -> None:
    heap = segment(1 << 40, block(16 * MIB), free(100 * MIB))
    assert _why(heap).cause == "allocator_anomaly"
    assert _why(heap, max_split_size=80 * MIB).cause == "fragmentation"


def test_limit_and_driver_refusal() -> None:
    entry = oom(64 * MIB, 1000 * MIB)
    assert _why(*_holes(1), entry=entry, limit_bytes=90 * MIB).cause == "limit"
    assert _why(*_holes(1), entry=entry, limit_bytes=500 * MIB).cause == "driver_refusal"
    assert _why(*_holes(1), entry=entry).cause == "driver_refusal"


def test_private_pools_and_the_default_pool() -> None:
    assert _why(*_holes(4, segment_pool_id=(1, 0))).cause == "private_pools"
    assert _why(*_holes(4, segment_pool_id=(0, 0))).cause == "fragmentation"


def test_other_streams_and_pending_frees() -> None:
    assert _why(*_holes(4, stream=7)).cause == "other_streams"
    pending = [segment((n + 1) << 40, block(16 * MIB), block(24 * MIB, "active_pending_free")) for n in range(4)]
    assert _why(*pending).cause == "other_streams"


def test_flush_skipped_in_a_capture_only() -> None:
    idle = [segment((n + 1) << 40, free(30 * MIB)) for n in range(3)]
    captured = oom(64 * MIB, 8 * MIB, frames=[{"filename": "g.py", "line": 1, "name": "capture_begin"}])
    assert _why(*idle, entry=captured).cause == "flush_skipped"
    assert _why(*idle).cause == "allocator_anomaly"  # a flush would have been enough, and none was made


def test_memory_outside() -> None:
    assert _why(block_ := segment(1 << 40, block(64 * MIB)), own_process_bytes=1000 * MIB).cause == "non_torch"
    assert _why(block_, own_process_bytes=400 * MIB).cause == "exhaustion"
    assert _why(block_, others_bytes=900 * MIB).cause == "other_process"
    assert _why(block_, others_bytes=10 * MIB).cause == "exhaustion"


@pytest.mark.parametrize(
    ("size", "wanted"), [(1, 2), (MIB, 2), (MIB + 1, 20), (10 * MIB - 512, 20), (10 * MIB - 1, 10), (11 * MIB, 12)]
)
def test_the_segment_that_is_asked_for(size: int, wanted: int) -> None:
    assert fit(_snapshot(), Request(request_bytes=size)).segment_bytes == wanted * MIB


_BLOCK = st.tuples(st.integers(1, 64), st.sampled_from(["active_allocated", "active_pending_free", "inactive"]))
_HEAP = st.lists(st.tuples(st.lists(_BLOCK, min_size=1, max_size=6), st.integers(0, 1), st.integers(0, 1)), max_size=6)


def _merged(blocks: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Free neighbours as one, as the allocator keeps them."""
    merged: list[tuple[int, str]] = []
    for size, state in blocks:
        if merged and merged[-1][1] == state == "inactive":
            merged[-1] = (merged[-1][0] + size, state)
        else:
            merged.append((size, state))
    return merged


@settings(max_examples=80)
@given(_HEAP, st.integers(2, 80))
def test_equals_brute_force(heap: list[tuple[list[tuple[int, str]], int, int]], asked_mib: int) -> None:
    heap = [(_merged(blocks), stream, pool) for blocks, stream, pool in heap]
    made = [
        segment(
            (n + 1) << 40, *(block(size * MIB, state) for size, state in blocks), stream=stream, segment_pool_id=(pool, 0)
        )
        for n, (blocks, stream, pool) in enumerate(heap)
    ]
    snapshot = _snapshot(*made)
    found = fit(snapshot, Request(request_bytes=asked_mib * MIB))
    cached = any(
        state == "inactive" and size >= asked_mib
        for blocks, stream, pool in heap
        for size, state in blocks
        if stream == pool == 0
    )
    idle = [blocks for blocks, _, pool in heap if pool == 0 and all(state == "inactive" for _, state in blocks)]
    flushed = sum(size for blocks in idle for size, _ in blocks)  # a graph's pool is kept while the graph lives
    needed = 20 if asked_mib < 10 else math.ceil(asked_mib / 2) * 2
    assert found.fits == (cached or flushed >= needed)
    assert (found.cause is None) == found.fits
    for pool_ in pools(snapshot, 0):
        assert pool_.reserved_bytes == pool_.allocated_bytes + pool_.pending_bytes + pool_.inactive_bytes
