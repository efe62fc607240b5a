"""The model of the allocator: its rules one by one, and histories that it follows to the last address."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.analyzers.allocator.model.allocator import Allocator, OutOfMemory
from oomctl.analyzers.allocator.model.check import check
from oomctl.analyzers.allocator.model.device import Device
from oomctl.analyzers.allocator.model.settings import Settings, next_division, settings_of
from oomctl.analyzers.allocator.model.state import state
from oomctl.analyzers.allocator.rewind import rewind
from oomctl.analyzers.allocator.timeline import replay
from tests.allocator.maker import MIB, Run

KINDS = {
    "plain": Settings(),
    "expandable": Settings(expandable=True),
    "max_split": Settings(max_split_bytes=48 * MIB),
    "rounding": Settings(divisions=(4,) * 16),
    "collecting": Settings(gc_threshold=0.6, limit_bytes=400 * MIB),
}


@pytest.mark.parametrize(
    ("size", "divisions", "expected"), [(1200, 4, 1280), (1024, 4, 1024), (1025, 4, 1280), (9, 16, 16)]
)
def test_rounding_to_parts_of_powers_of_two(size: int, divisions: int, expected: int) -> None:
    """1200 with 4 divisions is 1280: the example of PyTorch's documentation."""
    assert next_division(size, divisions) == expected


@pytest.mark.parametrize(
    ("size", "block", "segment"),
    [
        (1, 512, 2),
        (513, 1024, 2),
        (MIB, MIB, 2),
        (MIB + 1, MIB + 512, 20),
        (10 * MIB, 10 * MIB, 10),
        (11 * MIB, 12 * MIB, 12),
    ],
)
def test_blocks_and_segments(size: int, block: int, segment: int) -> None:
    allocator = Allocator(Device(), Settings())
    allocator.malloc(size)
    assert (allocator.active_bytes, allocator.reserved_bytes) == (block, segment * MIB)


def test_a_large_rest_of_up_to_a_mebibyte_stays_with_its_block() -> None:
    allocator = Allocator(Device(), Settings())
    assert allocator.malloc(19 * MIB).size == 20 * MIB
    assert allocator.malloc(18 * MIB + 512 * 1024).size == 18 * MIB + 512 * 1024 or allocator.active_bytes


def test_the_best_fit_of_the_same_stream_is_taken_and_free_neighbours_merge() -> None:
    allocator = Allocator(Device(), Settings())
    first, second, third = (allocator.malloc(size * MIB) for size in (40, 60, 50))
    for block in (first, second, third):
        allocator.free(block.address)
    assert allocator.malloc(45 * MIB).address == third.address
    assert allocator.malloc(45 * MIB, stream=1).address not in (first.address, second.address)
    a, b = allocator.malloc(30 * MIB), allocator.malloc(20 * MIB)
    assert b.address == second.address or a.address == first.address
    allocator.free(a.address)
    allocator.free(b.address)
    assert {block.size for pool in allocator.pools.values() for block in pool.at.values()} >= {40 * MIB, 60 * MIB}


def test_a_full_device_is_asked_again_after_a_flush() -> None:
    allocator = Allocator(Device(100 * MIB), Settings())
    allocator.free(allocator.malloc(60 * MIB).address)
    allocator.malloc(80 * MIB)
    assert (allocator.retries, allocator.reserved_bytes) == (1, 80 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        allocator.malloc(30 * MIB + 1)
    assert caught.value.segment_bytes == 32 * MIB


def test_no_flush_while_a_graph_is_captured() -> None:
    allocator = Allocator(Device(100 * MIB), Settings())
    allocator.free(allocator.malloc(60 * MIB).address)
    allocator.capturing = True
    with pytest.raises(OutOfMemory):
        allocator.malloc(80 * MIB, pool=(1, 0))


def test_max_split_size_keeps_large_blocks_whole_and_releases_them_first() -> None:
    allocator = Allocator(Device(200 * MIB), Settings(max_split_bytes=50 * MIB))
    big = allocator.malloc(100 * MIB)
    allocator.free(big.address)
    small = allocator.malloc(20 * MIB)
    assert small.address != big.address
    assert allocator.malloc(81 * MIB).size == 100 * MIB  # up to 20 MiB larger than asked
    allocator.free(big.address)
    allocator.malloc(79 * MIB)  # 21 MiB smaller: not this one
    assert allocator.retries == 0 and allocator.reserved_bytes == 200 * MIB
    allocator.free(small.address)
    allocator.malloc(60 * MIB)  # the oversize block goes, what is cached below the size stays
    assert allocator.retries == 0 and allocator.reserved_bytes == 160 * MIB


def test_old_segments_are_collected_above_the_threshold() -> None:
    allocator = Allocator(Device(), Settings(gc_threshold=0.5, limit_bytes=200 * MIB))
    old = allocator.malloc(60 * MIB)
    allocator.free(old.address)
    for _ in range(5):
        allocator.free(allocator.malloc(80 * MIB).address)
    allocator.malloc(90 * MIB)
    assert allocator.reserved_bytes == 170 * MIB  # 60 went, 80 was younger than the average
    assert allocator.retries == 0


def test_expandable_segments_grow_in_place_and_give_pages_back() -> None:
    allocator = Allocator(Device(200 * MIB), Settings(expandable=True))
    first, second = allocator.malloc(30 * MIB), allocator.malloc(30 * MIB)
    assert second.address == first.address + 30 * MIB and allocator.reserved_bytes == 60 * MIB
    third = allocator.malloc(30 * MIB)
    assert allocator.reserved_bytes == 100 * MIB  # pages of 20 MiB
    allocator.free(second.address)
    allocator.flush()
    assert allocator.reserved_bytes == 80 * MIB  # of 30 to 60 only the page from 40 to 60 is whole
    (segment, rest) = state(allocator)
    assert segment.total_bytes == 40 * MIB and rest.blocks[0].address == third.address
    allocator.malloc(110 * MIB)
    assert allocator.reserved_bytes <= 200 * MIB


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, int, list[tuple[int, int]]]:
    steps = st.tuples(st.integers(0, 9), st.integers(1, 80 * MIB))
    return draw(st.sampled_from(sorted(KINDS))), draw(st.integers(100, 900)), draw(st.lists(steps, max_size=40))


def run_program(kind: str, room: int, steps: list[tuple[int, int]]) -> Run:
    run = Run(room * MIB, KINDS[kind])
    held: list[int] = []
    pending: list[int] = []
    for what, size in steps:
        if what < 5 or not held:
            size = size if what % 2 else size % (2 * MIB) + 1
            address = run.alloc(size, stream=what % 2, pool=(what // 4, 0))
            held += [address] if address is not None else []
        elif what < 8:
            run.free(held.pop(size % len(held)))
        elif what == 8:
            pending.append(held.pop(size % len(held)))
            run.free(pending[-1], used_elsewhere=True)
        elif pending:
            run.complete(pending.pop())
        else:
            run.allocator.flush()
    return run


@settings(max_examples=150)
@given(programs())
def test_no_sequence_of_requests_breaks_the_identities(program: tuple[str, int, list[tuple[int, int]]]) -> None:
    run = run_program(*program)
    segments = state(run.allocator)
    blocks = [block for segment in segments for block in segment.blocks]
    assert sum(segment.total_bytes for segment in segments) == run.allocator.reserved_bytes == run.device.used_bytes
    assert sum(block.size_bytes for block in blocks) == run.allocator.reserved_bytes <= program[1] * MIB
    assert sum(block.size_bytes for block in blocks if block.state != "inactive") == run.allocator.active_bytes
    for segment in segments:
        ends = [segment.address, *(block.address + block.size_bytes for block in segment.blocks)]
        assert [block.address for block in segment.blocks] == ends[:-1]
        free = [block.state == "inactive" for block in segment.blocks]
        assert not any(one and other for one, other in itertools.pairwise(free))


@settings(max_examples=150)
@given(programs(), st.booleans())
def test_a_history_is_followed_to_the_last_address(program: tuple[str, int, list[tuple[int, int]]], pools: bool) -> None:
    """From the state that is rewound to its beginning. The timeline is as exact, but for rests that were not split off."""
    run = run_program(*program)
    snapshot = run.snapshot(pools=True)
    if not run.trace:
        return
    totals: list[tuple[int, int]] = []
    found = check(snapshot, 0, run.allocator.settings.limit_bytes, totals)
    assert (found.parted_at, found.why) == (None, "")
    timeline = replay(snapshot, 0)
    assert timeline is not None
    assert list(timeline.reserved_bytes) == [reserved for reserved, _ in run.totals]
    asked = [n for n, entry in enumerate(run.trace) if not entry["action"].startswith("segment")]
    assert [totals[n] for n in asked] == [run.totals[n] for n in asked]
    if run.allocator.settings.expandable:
        assert list(timeline.allocated_bytes) == [active for _, active in run.totals]


@settings(max_examples=100)
@given(programs(), st.integers(0, 39))
def test_the_state_at_any_event(program: tuple[str, int, list[tuple[int, int]]], cut: int) -> None:
    """Rewinding the whole history to an event gives what a snapshot taken there would have held."""
    kind, room, steps = program
    before = run_program(kind, room, steps[:cut])
    whole = run_program(kind, room, steps)
    if not before.trace or len(before.trace) > len(whole.trace):
        return
    now = rewind(whole.snapshot(), 0, len(before.trace) - 1)
    then = before.snapshot()
    told = [[(b.address, b.size_bytes, b.state) for b in s.blocks] for s in sorted(then.segments, key=lambda s: s.address)]
    assert [[(b.address, b.size_bytes, b.state) for b in s.blocks] for s in now.segments] == told


def fragmented() -> Run:
    """Large blocks give way to small ones that stay, one in each segment; then a large one is asked for again."""
    run = Run(200 * MIB)
    for _ in range(4):
        large = run.alloc(44 * MIB)
        assert large is not None
        run.free(large)
        run.alloc(12 * MIB, "weights")
        run.alloc(31 * MIB + 512)
    for block in [block for block in run.allocator.live.values() if block.requested > 12 * MIB]:
        run.free(block.address)
    assert run.alloc(100 * MIB) is None
    return run


def test_settings_are_read_as_the_snapshot_tells_them() -> None:
    told = Run(settings=KINDS["rounding"]).snapshot().settings
    assert settings_of(told) == KINDS["rounding"]
    assert settings_of(Run(settings=KINDS["max_split"]).snapshot().settings) == KINDS["max_split"]
    assert settings_of({}) == Settings()
