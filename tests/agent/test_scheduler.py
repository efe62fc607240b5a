"""What the agent makes of a scheduler's steps: figures, pools, time lines, pauses."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.agent.header import set_active
from oomctl.collectors.agent.reader import read_ring, ring_paths
from oomctl.collectors.agent.scheduler import SchedulerWatch
from oomctl.collectors.agent.settings import Settings
from oomctl.collectors.agent.tables import LOOK_STEPS
from tests.agent.rings import make_rings
from tests.agent.scheduling import Request, Scheduler

Row = dict[str, Any]


class Engine:
    """A scheduler that the agent watches, and what it recorded."""

    def __init__(self, folder: Path, tracked_requests: int = 0, **options: Any) -> None:
        self.folder = folder
        self.scheduler = Scheduler(**options)
        settings = Settings(folder, "w", "i", tracked_requests=tracked_requests)
        self.watch = SchedulerWatch(self.scheduler, make_rings(folder, 512), settings)

    def step(self, *ends: str) -> None:
        output = self.scheduler.schedule()
        self.scheduler.update_from_output(output, ends)

    def rows(self, kind: str) -> list[Row]:
        (path,) = ring_paths(self.folder)
        header, batch = read_ring(path)
        assert (header.errors, header.dropped, batch.torn) == (0, 0, 0)
        return [record.values for record in batch.records if record.kind.name == kind]

    def line(self, request_id: str) -> list[tuple[str, int, int]]:
        """(event, blocks held, step) of a request."""
        rows = [row for row in self.rows("request") if row["request_id"] == request_id]
        return [(row["event"], row["kv_blocks"], row["step_id"]) for row in rows]

    def assert_pool_is_right(self) -> None:
        assert self.rows("kv_pool")
        assert all(row["allocated_blocks"] - row["freed_blocks"] == row["used_blocks"] for row in self.rows("kv_pool"))
        assert self.rows("collector")[1:] == []


@pytest.fixture(params=["plain", "with transfers"])
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> Engine:
    return Engine(tmp_path, connector=None if request.param == "plain" else object())


def test_a_request_from_its_arrival_to_its_end(engine: Engine) -> None:
    engine.scheduler.budget["a"] = 4
    engine.scheduler.add_request(Request("a"))
    engine.step()
    engine.scheduler.budget.clear()
    for _ in range(4):
        engine.step()
    engine.step("a")
    assert engine.line("a") == [
        ("queued", 0, None), ("admitted", 1, 1), ("first_token", 1, 1), ("blocks_changed", 3, 6), ("finished", 3, 6),
        ("blocks_freed", 0, 6),
    ]  # fmt: skip
    assert [row["step_id"] for row in engine.rows("step")] == [1, 2, 3, 4, 5, 6]
    assert [row["used_blocks"] for row in engine.rows("kv_pool")] == [1, 2, 2, 2, 2, 0]
    engine.assert_pool_is_right()


def test_who_decodes_is_looked_at_together_with_others_and_never_late_by_more(engine: Engine) -> None:
    engine.scheduler.budget.update(a=4, b=4)
    for name in "ab":
        engine.scheduler.add_request(Request(name))
        engine.step()
        engine.scheduler.budget[name] = 1
    for _ in range(6 * LOOK_STEPS):
        engine.step()
    used = [row["used_blocks"] for row in engine.rows("kv_pool")]
    for name in "ab":
        rows = engine.line(name)[3:]
        assert {step_id % LOOK_STEPS for _, _, step_id in rows} == {0}
        assert {after - before for (_, _, before), (_, _, after) in pairwise(rows)} == {LOOK_STEPS}
    assert [a + b for (_, a, _), (_, b, _) in zip(engine.line("a")[3:], engine.line("b")[3:], strict=True)] == [
        used[step_id - 1] for _, _, step_id in engine.line("a")[3:]
    ]


def test_prompts_that_take_several_steps_are_prefill_in_each(engine: Engine) -> None:
    engine.scheduler.add_request(Request("short", num_prompt_tokens=2))
    engine.scheduler.add_request(Request("long", num_prompt_tokens=9))
    engine.scheduler.budget.update(short=2, long=5)
    engine.step()
    engine.scheduler.budget.update(short=1, long=3)
    engine.step()
    engine.scheduler.budget.update(long=1)
    engine.step()
    engine.step()
    steps = engine.rows("step")
    assert [(row["prefill_tokens"], row["decode_tokens"]) for row in steps] == [(7, 0), (3, 1), (1, 1), (0, 2)]
    assert [event for event, *_ in engine.line("long")] == ["queued", "admitted", "blocks_changed", "first_token"]


def test_preempted_and_resumed(engine: Engine) -> None:
    engine.scheduler.budget.update(a=4, b=4)
    for name in "ab":
        engine.scheduler.add_request(Request(name))
    engine.step()
    engine.scheduler.budget.clear()
    engine.step()
    engine.scheduler.preempt(engine.scheduler.requests["b"])
    engine.scheduler.budget["b"] = 6
    engine.step()
    assert engine.line("b") == [
        ("queued", 0, None), ("admitted", 1, 1), ("first_token", 1, 1), ("blocks_changed", 2, 2), ("preempted", 0, 2),
        ("resumed", 2, 3),
    ]  # fmt: skip
    last = engine.rows("kv_pool")[-1]
    assert (last["preempted_requests"], last["preempted_tokens"], last["recomputed_tokens"]) == (1, 5, 5)
    assert (engine.rows("step")[-1]["prefill_tokens"], engine.rows("step")[-1]["decode_tokens"]) == (6, 1)
    assert [row["error_type"] for row in engine.rows("oom")] == ["preemption"]
    engine.assert_pool_is_right()


def test_more_of_a_prompt_is_of_the_request_that_is_there(engine: Engine) -> None:
    engine.scheduler.budget["a"] = 4
    engine.scheduler.add_request(Request("a"))
    engine.step()
    engine.scheduler.add_request(Request("a", num_prompt_tokens=5))
    engine.scheduler.budget["a"] = 5
    engine.step()
    engine.step("a")
    assert engine.line("a") == [
        ("queued", 0, None), ("admitted", 1, 1), ("first_token", 1, 1), ("admitted", 3, 2), ("blocks_changed", 4, 3),
        ("finished", 4, 3), ("blocks_freed", 0, 3),
    ]  # fmt: skip
    rows = engine.rows("request")
    assert [row["prompt_tokens"] for row in rows] == [4] * 3 + [9] * 4
    assert sum(row["kv_blocks_delta"] or 0 for row in rows) == 0


def test_more_of_a_prompt_does_not_begin_a_time_line(tmp_path: Path) -> None:
    engine, names = Engine(tmp_path, tracked_requests=1), "abcdefgh"
    engine.scheduler.budget.update(dict.fromkeys(names, 4))
    begun: list[list[str]] = []
    for _ in range(12):
        for name in names:
            engine.scheduler.add_request(Request(name))
        engine.step()
        begun.append([row["request_id"] for row in engine.rows("request") if row["event"] == "queued"])
    assert begun == [begun[0]] * 12
    engine.step(*names)
    assert [row["request_id"] for row in engine.rows("request") if row["event"] == "blocks_freed"] == begun[0]


def test_cancelled_while_its_step_runs(engine: Engine) -> None:
    engine.scheduler.budget["a"] = 4
    engine.scheduler.add_request(Request("a"))
    engine.step()
    engine.scheduler.budget.clear()
    output = engine.scheduler.schedule()
    engine.scheduler.finish(engine.scheduler.requests["a"], "FINISHED_ABORTED")
    engine.scheduler.update_from_output(output, ())
    assert engine.line("a")[3:] == [("blocks_changed", 2, 2), ("cancelled", 2, 2), ("blocks_freed", 0, 2)]
    engine.assert_pool_is_right()


def test_a_step_that_fails_is_told_with_all_that_it_had(engine: Engine) -> None:
    engine.scheduler.budget["a"] = 4
    engine.scheduler.add_request(Request("a"))
    engine.step()
    engine.scheduler.budget.clear()
    output = engine.scheduler.schedule()
    engine.watch.failed(RuntimeError("CUDA out of memory."), output)
    assert engine.line("a")[3:] == [("scheduled", 2, 2)]
    assert [row["dumped"] for row in engine.rows("step")] == [None, True]
    assert [row["fatal"] for row in engine.rows("oom")] == [True]


def test_running_and_waiting_are_those_of_the_step(engine: Engine) -> None:
    for name in "abc":
        engine.scheduler.add_request(Request(name))
    engine.step("a", "b")
    engine.step()
    engine.step("c")
    engine.step()
    assert [row["running_requests"] for row in engine.rows("step")] == [3, 1, 1, 0]
    assert {row["waiting_requests"] for row in engine.rows("step")} == {0}


@pytest.mark.parametrize("outside", ["touch", "free_blocks"])
def test_blocks_that_move_outside_of_a_step_are_counted(engine: Engine, outside: str) -> None:
    engine.scheduler.add_request(Request("a"))
    engine.step()
    getattr(engine.scheduler.kv_cache_manager.block_pool, outside)([1])
    engine.step()
    engine.assert_pool_is_right()


def test_blocks_that_move_unseen_are_told_and_counted_anew(engine: Engine) -> None:
    engine.scheduler.add_request(Request("a"))
    engine.step()
    engine.scheduler.kv_cache_manager.block_pool.free_block_queue.num_free_blocks -= 3
    engine.step()
    engine.step()
    (_, told) = engine.rows("collector")
    assert (told["name"], told["state"]) == ("kv_pool", "degraded")
    last = engine.rows("kv_pool")[-1]
    assert last["allocated_blocks"] - last["freed_blocks"] == last["used_blocks"] == 4


def test_paused_it_is_gone_and_resumed_it_takes_over_who_is_there(engine: Engine) -> None:
    engine.scheduler.budget["a"] = 4
    engine.scheduler.add_request(Request("a", num_prompt_tokens=11))
    engine.step()
    (path,) = ring_paths(engine.folder)
    set_active(path, False)
    engine.step()
    assert set(vars(engine.scheduler)) & {"update_from_output", "add_request", "_free_request"} == set()
    engine.scheduler.budget["a"] = 1
    engine.step()
    set_active(path, True)
    engine.scheduler.budget["a"] = 2
    engine.step()
    assert [row["step_id"] for row in engine.rows("step")] == [1, 2, 3]
    assert engine.line("a")[3:] == [("scheduled", 3, 2), ("first_token", 3, 3)]
    assert engine.rows("step")[-1]["prefill_tokens"] == 2, "it was in the midst of its prompt"
    engine.assert_pool_is_right()


def test_steps_that_overlap_each_have_their_own_figures(engine: Engine) -> None:
    """As with asynchronous scheduling: the next step is scheduled before the output of the one before is there."""
    engine.scheduler.budget["a"] = 4
    engine.scheduler.add_request(Request("a"))
    first = engine.scheduler.schedule()
    engine.scheduler.budget.clear()
    second = engine.scheduler.schedule()
    engine.scheduler.add_request(Request("b"))
    third = engine.scheduler.schedule()
    for output in (first, second, third):
        engine.scheduler.update_from_output(output, ())
    steps = engine.rows("step")
    assert [(row["step_id"], row["prefill_tokens"], row["decode_tokens"]) for row in steps] == [
        (1, 4, 0),
        (2, 0, 1),
        (3, 1, 1),
    ]
    assert [row["running_requests"] for row in steps] == [1, 1, 2]
    engine.step("a")
    assert engine.line("a")[2:] == [
        ("first_token", 1, 1), ("blocks_changed", 2, 4), ("finished", 2, 4), ("blocks_freed", 0, 4),
    ]  # fmt: skip
