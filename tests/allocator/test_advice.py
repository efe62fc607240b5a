"""What is short after the flush that a request sets off, and advice that the allocator has not taken already."""

from typing import Any

import pytest

from oomctl.analyzers.allocator.advice import ESTIMATE, EXPANDABLE
from oomctl.analyzers.allocator.fit import Fit, Request, fit, oom_request
from oomctl.analyzers.allocator.report import report
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.schemas.heap import Snapshot
from tests.allocator.heaps import MIB, block, document, free, oom, segment
from tests.allocator.maker import Run
from tests.allocator.test_model import fragmented

CAPTURE = [{"filename": "/torch/cuda/graphs.py", "line": 9, "name": "capture_begin"}]


def _read(*heap: object, **more: object) -> Snapshot:
    return read_document(document(*heap, **more), "made", 1 << 30)  # type: ignore[arg-type]


def _failed(snapshot: Snapshot) -> Fit:
    asked = oom_request(snapshot, 0)
    assert asked is not None
    return fit(snapshot, asked)


@pytest.mark.parametrize(("held", "cause"), [(20, "fragmentation"), (40, "exhaustion")])
def test_what_the_flush_gives_is_not_short(held: int, cause: str) -> None:
    holes = [segment((n + 2) << 40, block(held * MIB), free((50 - held) * MIB)) for n in range(4)]
    snapshot = _read(segment(1 << 40, free(200 * MIB)), *holes)
    found = fit(snapshot, Request(request_bytes=300 * MIB, device_free_bytes=40 * MIB))
    assert (found.short_bytes, found.cause) == (60 * MIB, cause)
    assert fit(snapshot, Request(request_bytes=300 * MIB, device_free_bytes=100 * MIB)).short_bytes == 0


def test_what_the_flush_gives_of_other_streams_counts_once() -> None:
    snapshot = _read(segment(1 << 40, free(200 * MIB), stream=7))
    found = fit(snapshot, Request(request_bytes=300 * MIB))
    assert (found.short_bytes, found.cause) == (100 * MIB, "exhaustion")


@pytest.mark.parametrize(("room", "short"), [(40, 0), (20, 20)])
def test_the_free_end_of_an_expandable_segment_is_not_short(room: int, short: int) -> None:
    heap = segment(1 << 40, block(40 * MIB), free(60 * MIB), is_expandable=True)
    snapshot = _read(heap, expandable_segments=True)
    found = fit(snapshot, Request(request_bytes=100 * MIB, device_free_bytes=room * MIB))
    assert (found.fits, found.short_bytes) == (short == 0, short * MIB)
    # In a capture nothing is flushed: the end stays, and only what is behind it has to be mapped.
    entry = oom(100 * MIB, room * MIB, frames=CAPTURE, pool_id=(0, 0))
    assert _failed(_read(heap, trace=[entry], expandable_segments=True)).short_bytes == short * MIB


def test_what_is_set_already_is_not_advised() -> None:
    def helps(**settings: object) -> list[str]:
        heap = [segment((n + 1) << 40, block(16 * MIB), free(24 * MIB)) for n in range(4)]
        return _failed(_read(*heap, trace=[oom(64 * MIB, 8 * MIB)], **settings)).helps

    assert any(text.startswith(EXPANDABLE) for text in helps()) and any("max_split" in text for text in helps())
    assert not any("expandable" in text or "max_split" in text for text in helps(expandable_segments=True))
    assert not any("max_split" in text for text in helps(max_split_size=512 * MIB))
    barred = _read(segment(1 << 40, block(MIB), free(90 * MIB)), trace=[oom(64 * MIB, 8 * MIB)], max_split_size=70 * MIB)
    assert _failed(barred).helps[0].startswith("raise max_split_size_mb")


def test_expandable_segments_are_tried_where_the_model_follows() -> None:
    def helps(run: Run) -> list[str]:
        found = report(run.snapshot(), 0, None, "stack", None).fit
        assert found is not None and found.cause == "fragmentation"
        return [text for text in found.helps if "expandable" in text]

    assert helps(fragmented()) == [f"{EXPANDABLE} (tried on a model that follows the whole history: what failed is served)"]
    cut = fragmented()
    cut.keep = 1  # the holes were made before: nothing can be tried
    assert helps(cut) == [EXPANDABLE + ESTIMATE]


@pytest.mark.parametrize(
    ("told", "cause"),
    [({}, "flush_skipped"), ({"pool_id": (0, 1)}, "flush_skipped"), ({"pool_id": (0, 0)}, "allocator_anomaly")],
)
def test_a_capture_of_which_no_pool_is_told(told: dict[str, Any], cause: str) -> None:
    heap = [segment(1 << 40, free(100 * MIB)), segment(2 << 40, block(MIB), free(30 * MIB), segment_pool_id=(0, 1))]
    entry = oom(64 * MIB, 8 * MIB, frames=CAPTURE, **told)
    before = {"action": "alloc", "addr": 2 << 40, "size": MIB, "stream": 0, "frames": [], "pool_id": (0, 1)}
    assert _failed(_read(*heap, trace=[before, entry] if told else [entry])).cause == cause
