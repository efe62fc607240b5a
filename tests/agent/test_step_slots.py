"""A step's records, filled in place: what is read back of them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from oomctl.collectors.agent.admissions import Admissions
from oomctl.collectors.agent.kinds import EVENT
from oomctl.collectors.agent.layout import NULL_U8
from oomctl.collectors.agent.pools import PoolTotals
from oomctl.collectors.agent.reader import RingReader, ring_paths
from oomctl.collectors.agent.requests import follow
from oomctl.collectors.agent.step_slots import MAX_GROWN, Growth, StepSlots
from tests.agent.rings import make_rings
from tests.agent.scheduling import BlockPool, Request

Row = dict[str, Any]


def growth_of(names: list[str]) -> Growth:
    """Each got its third and fourth block."""
    followed = [follow(Request(name, num_computed_tokens=13, num_output_tokens=2), "all") for name in names]
    for one in followed:
        one.blocks = 4
    return [(one, EVENT["blocks_changed"], 4, 2, 1, 13, 2) for one in followed]


class Written:
    """A ring with a step's slots on it, read as it is written."""

    def __init__(self, folder: Path, pools: int, capacity: int) -> None:
        self.pools = [PoolTotals(BlockPool(100 + number), 4, 1024, str(number)) for number in range(pools)]
        self.ring = make_rings(folder, capacity).mine()
        self.slots = StepSlots(self.ring, self.pools)
        self.counters = Admissions(SimpleNamespace(requests={})).counters
        self.reader: RingReader | None = None
        self.folder = folder

    def step(self, step_id: int, growth: Growth, dumped: int = NULL_U8) -> list[tuple[str, Row]]:
        assert self.slots.put((None, step_id, 7, 250, 3, 251, 9, 260, 1_000, growth), 5_001_000, self.counters, dumped)
        if self.reader is None:
            self.reader = RingReader(ring_paths(self.folder)[0])
        batch = self.reader.read()
        assert (batch.overwritten, batch.torn, batch.unknown) == (0, 0, 0)
        assert {record.monotonic_ns for record in batch.records if record.kind.name != "request"} == {5_001_000}
        return [(record.kind.name, record.values) for record in batch.records]


def test_a_step_and_its_pools_are_read_as_they_were_filled_also_over_the_rings_end(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=2, capacity=16)
    for step_id in range(1, 40):
        written.pools[1].queue.num_free_blocks -= 1
        written.pools[0].freed += 5
        (step, main, other) = written.step(step_id, [])
        assert step == ("step", {
            "step_id": step_id, "prefill_tokens": 7, "decode_tokens": 250, "cached_tokens": 3, "running_requests": 251,
            "waiting_requests": 9, "logits_positions": 260, "duration_us": 5000, "dumped": None,
        })  # fmt: skip
        assert [row["total_blocks"] for _, row in (main, other)] == [100, 101]
        assert (main[1]["free_blocks"], main[1]["allocated_blocks"], main[1]["freed_blocks"]) == (
            100,
            5 * step_id,
            5 * step_id,
        )
        assert (other[1]["free_blocks"], other[1]["used_blocks"], other[1]["freed_blocks"]) == (101 - step_id, step_id, 0)
        assert (main[1]["tier"], main[1]["group_id"], other[1]["group_id"]) == ("device", "0", "1")
        assert (main[1]["total_tokens"], main[1]["bytes_per_block"]) == (400, 1024)


def test_a_step_that_failed_is_marked_and_the_next_is_not(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=1, capacity=16)
    assert [written.step(number, [], dumped)[0][1]["dumped"] for number, dumped in ((1, 1), (2, NULL_U8))] == [True, None]


def test_counters_are_told_from_their_change_on(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=2, capacity=16)
    admissions = Admissions(SimpleNamespace(requests={}))
    admissions.preempted("a", 31)
    written.step(1, [])
    written.counters = admissions.counters
    pools = [row for kind, row in written.step(2, []) if kind == "kv_pool"]
    assert [(row["preempted_requests"], row["preempted_tokens"]) for row in pools] == [(1, 31), (1, 31)]


def test_who_grew_is_told_however_many_and_however_long_their_names(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=1, capacity=256)
    names = ["x" * 300, *(f"r{number}" for number in range(MAX_GROWN + 5)), "y" * 300]
    for step_id in (1, 2):
        rows = [row for kind, row in written.step(step_id, growth_of(names)) if kind == "request"]
        assert sorted(row["request_id"] for row in rows) == sorted(names)
        assert {(row["event"], row["sampled_by"], row["step_id"]) for row in rows} == {("blocks_changed", "all", step_id)}
        assert {(row["kv_blocks"], row["kv_blocks_delta"], row["scheduled_tokens"]) for row in rows} == {(4, 2, 1)}
        assert {(row["computed_tokens"], row["output_tokens"], row["prompt_tokens"]) for row in rows} == {(13, 2, 4)}
        assert {(row["sample_weight"], row["max_output_tokens"], row["cached_tokens"]) for row in rows} == {(1.0, 10, None)}
