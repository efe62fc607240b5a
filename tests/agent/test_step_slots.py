"""A step's records, filled in place: what is read back of them."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oomctl.collectors.agent.admissions import Admissions
from oomctl.collectors.agent.layout import NULL_U8
from oomctl.collectors.agent.pools import PoolTotals
from oomctl.collectors.agent.step_slots import MAX_FLIGHTS, StepSlots
from tests.agent.rings import Recorded
from tests.agent.scheduling import BlockPool

Row = dict[str, Any]


class Written:
    """A ring with a step's slots on it, read as it is written."""

    def __init__(self, folder: Path, pools: int, capacity: int) -> None:
        self.pools = [PoolTotals(BlockPool(100 + number), 4, 1024, str(number)) for number in range(pools)]
        self.recorded = Recorded(folder, capacity)
        self.mismatches: list[PoolTotals] = []
        self.more: list[int] = []
        self.started_ns = time.monotonic_ns()
        self.slots = StepSlots(self.recorded.ring, self.pools, self.mismatches.append, self._more)

    def _more(self, step_id: int, _result: Any, now_ns: int) -> None:
        self.more.append(step_id)
        self.slots.more_due_ns = now_ns + 10**15

    def begin(self, step_id: int) -> Any:
        output = SimpleNamespace()
        if self.slots.flight is not None:
            self.slots.overlap(self.slots.flight)
        self.slots.flight = output, step_id, 7, 250, 3, 251, 9, 260, self.started_ns
        for pool in self.pools:
            pool.rebase()
        return output

    def end(self, output: Any, dumped: int = NULL_U8) -> list[tuple[str, Row]]:
        assert self.slots.end(output, None, dumped)
        return self.recorded.rows()

    def step(self, step_id: int, dumped: int = NULL_U8) -> list[tuple[str, Row]]:
        return self.end(self.begin(step_id), dumped)


def test_a_step_and_its_pools_are_read_as_they_were_filled_also_over_the_rings_end(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=2, capacity=16)
    for step_id in range(1, 40):
        written.pools[1].queue.num_free_blocks -= 1
        written.pools[0].freed += 5
        (step, main, other) = written.step(step_id)
        assert 0 < step[1].pop("duration_us") < 10**9
        assert step == ("step", {
            "step_id": step_id, "prefill_tokens": 7, "decode_tokens": 250, "cached_tokens": 3, "running_requests": 251,
            "waiting_requests": 9, "logits_positions": 260, "dumped": None,
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
    assert (written.mismatches, written.more) == ([], [1])


def test_a_step_that_failed_is_marked_and_the_next_is_not(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=1, capacity=16)
    assert [written.step(number, dumped)[0][1]["dumped"] for number, dumped in ((1, 1), (2, NULL_U8))] == [True, None]


def test_a_step_of_days_is_the_longest_that_can_be_told(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=1, capacity=16)
    written.started_ns -= 10**15
    assert written.step(1)[0][1]["duration_us"] == 2**31 - 1


@pytest.mark.parametrize("pools", [1, 2])
def test_a_figure_that_cannot_be_costs_its_own_step_alone(tmp_path: Path, pools: int) -> None:
    written = Written(tmp_path, pools, capacity=16)
    for dumped in (1, NULL_U8):
        output = written.begin(1)
        written.pools[-1].queue.num_free_blocks += 1000
        with pytest.raises(ValueError, match="memoryview"):
            written.slots.end(output, None, dumped)
        written.pools[-1].queue.num_free_blocks -= 1000
        step, *pool_rows = written.step(2)
        assert (step[1]["step_id"], step[1]["dumped"], len(pool_rows)) == (2, None, pools)


def test_counters_are_told_from_their_change_on(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=2, capacity=16)
    admissions = Admissions(SimpleNamespace(requests={}), written.slots.count)
    first = written.step(1)
    admissions.preempted("a", 31)
    for rows, expected in ((first, (0, 0)), (written.step(2), (1, 31))):
        pools = [row for kind, row in rows if kind == "kv_pool"]
        assert [(row["preempted_requests"], row["preempted_tokens"]) for row in pools] == [expected, expected]


def test_blocks_that_moved_between_a_steps_scheduling_and_its_output_are_told(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=2, capacity=16)
    output = written.begin(1)
    written.pools[1].queue.num_free_blocks -= 1
    written.end(output)
    assert written.mismatches == [written.pools[1]]


def test_steps_land_in_any_order_and_those_that_never_do_are_forgotten(tmp_path: Path) -> None:
    written = Written(tmp_path, pools=1, capacity=512)
    outputs = {step_id: written.begin(step_id) for step_id in range(1, MAX_FLIGHTS + 3)}
    landed = [written.end(outputs[step_id])[0][1]["step_id"] for step_id in (5, MAX_FLIGHTS + 2, 4, 3)]
    assert landed == [5, MAX_FLIGHTS + 2, 4, 3]
    assert written.end(outputs[1]) == written.end(outputs[5]) == []
    written.slots.forget()
    assert written.end(outputs[6]) == []
