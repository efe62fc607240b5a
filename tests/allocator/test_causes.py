"""The fit test against known truth: each cause, its look-alike, and naive reckoning on small heaps."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.analyzers.allocator.fit import Fit, Request, fit, oom_request
from oomctl.analyzers.allocator.rules import segment_bytes
from oomctl.analyzers.allocator.state import releasable
from tests.allocator.causes import PAIRS, Failure
from tests.allocator.maker import MIB
from tests.allocator.test_model import KINDS, programs, run_program


def _tested(failure: Failure) -> Fit:
    snapshot = failure.run.snapshot()
    asked = oom_request(snapshot, 0)
    assert asked is not None
    return fit(snapshot, msgspec.structs.replace(asked, capturing=asked.capturing, **failure.beside))


@pytest.mark.parametrize("which", [0, 1], ids=["cause", "look-alike"])
@pytest.mark.parametrize("name", PAIRS)
def test_the_truth_is_found(name: str, which: int) -> None:
    failure = PAIRS[name][which]()
    found = _tested(failure)
    assert found.cause == failure.cause, found
    assert (name.split(",")[0] == failure.cause) == (which == 0)


def test_below_a_limit_the_shortage_is_the_limits() -> None:
    failure = PAIRS["limit"][0]()
    found = _tested(failure)
    asked = found.request
    assert asked.device_free_bytes is not None and asked.device_free_bytes > found.segment_bytes
    assert found.short_bytes == 50 * MIB  # 150 of 200 MiB are reserved, and 100 were asked for
    outside = msgspec.structs.replace(asked, own_process_bytes=900 * MIB, others_bytes=900 * MIB)
    margins = {margin.cause: margin.sufficient for margin in fit(failure.run.snapshot(), outside).margins}
    assert margins["non_torch"] is margins["other_process"] is False  # a limit counts only what PyTorch has reserved
    alone = fit(failure.run.snapshot(), Request(request_bytes=asked.request_bytes, limit_bytes=200 * MIB))
    assert (alone.cause, alone.short_bytes, alone.assumed_full) == ("limit", 50 * MIB, False)


@pytest.mark.parametrize(
    ("settings_", "cause"),
    [
        ({}, "driver_refusal"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False,per_process_memory_fraction:0.5"}, "limit"),
        ({"PYTORCH_ALLOC_CONF": "per_process_memory_fraction: 1.0"}, "driver_refusal"),
    ],
)
def test_a_fraction_in_the_settings_is_a_limit(settings_: dict[str, str], cause: str) -> None:
    snapshot = PAIRS["limit"][0]().run.snapshot()
    snapshot.settings |= settings_
    asked = oom_request(snapshot, 0)
    assert asked is not None
    found = fit(snapshot, asked)
    assert (found.cause, found.short_bytes) == (cause, 0)


@settings(max_examples=150)
@given(programs(), st.integers(1, 120 * MIB), st.integers(0, 60), st.integers(0, 1))
def test_it_fits_where_the_run_would_have_gone_on(
    program: tuple[str, int, list[tuple[int, int]]], size: int, free: int, stream: int
) -> None:
    """The test sees only the snapshot; the run that wrote it goes on and tries."""
    run = run_program(*program)
    limit = run.allocator.settings.limit_bytes
    request = Request(request_bytes=size, stream=stream, device_free_bytes=free * MIB, limit_bytes=limit)
    found = fit(run.snapshot(), request)
    run.device.room_bytes = run.device.used_bytes + free * MIB
    pending = [block for block in run.allocator.live.values() if block.pending]
    assert found.fits == (run.alloc(size, stream=stream) is not None)
    assert all(block.pending for block in pending)
    assert (found.cause is None) == found.fits


@settings(max_examples=150)
@given(programs(), st.integers(1, 120 * MIB), st.integers(0, 60))
def test_margins_are_what_naive_reckoning_gives(
    program: tuple[str, int, list[tuple[int, int]]], size: int, free: int
) -> None:
    snapshot = run_program(*program).snapshot()
    found = fit(snapshot, Request(request_bytes=size, device_free_bytes=free * MIB))
    flushed = {
        stream: sum(releasable(s) for s in snapshot.segments if (s.stream != 0) is stream) for stream in (True, False)
    }
    lacking = segment_bytes(KINDS[program[0]].block_bytes(size)) - free * MIB - sum(flushed.values())
    blocks = [(s, b) for s in snapshot.segments for b in s.blocks]
    inactive = [(s, b) for s, b in blocks if b.state == "inactive"]
    pending = sum(b.size_bytes for _, b in blocks if b.state == "active_pending_free")
    naive = {
        "private_pools": sum(b.size_bytes for s, b in inactive if s.pool != (0, 0)),
        "other_streams": pending
        + sum(b.size_bytes for s, b in inactive if s.pool == (0, 0) and s.stream != 0)
        - flushed[True],
    }
    gains = {margin.cause: margin.reclaim_bytes for margin in found.margins}
    assert {name: gains[name] for name in naive} == naive  # type: ignore[index]
    mine = sum(b.size_bytes for s, b in inactive if s.pool == (0, 0) and s.stream == 0)
    assert gains["fragmentation"] is not None and gains["fragmentation"] <= mine
    short = 0 if found.fits else max(lacking, 0)
    assert found.short_bytes == short
    assert all(margin.sufficient == (short > 0 and (margin.reclaim_bytes or 0) >= short)
               for margin in found.margins if margin.reclaim_bytes is not None)  # fmt: skip
