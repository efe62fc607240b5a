"""When a request is looked at for new blocks, and what is found."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oomctl.collectors.agent.requests import Followed, follow
from oomctl.collectors.agent.tables import FURTHEST_STEPS, LOOK_STEPS, BlockTables
from tests.agent.rings import Recorded
from tests.agent.scheduling import Request

BLOCK = 4


class Batch:
    """One request that decodes, in an engine with a table for each KV cache group."""

    def __init__(
        self, folder: Path, sizes: tuple[int, ...] = (BLOCK,), tokens_a_step: int = 1, lookahead: int = 0, name: str = "a"
    ) -> None:
        self.managers = [SimpleNamespace(req_to_blocks={name: [0]}, block_size=size) for size in sizes]
        self.looks = 0
        manager = SimpleNamespace(coordinator=SimpleNamespace(single_type_managers=self.managers))
        scheduler = SimpleNamespace(
            kv_cache_manager=manager, block_size=BLOCK, num_spec_tokens=tokens_a_step - 1, num_lookahead_tokens=lookahead
        )
        self.recorded = Recorded(folder)
        self.tables = BlockTables(scheduler, self.recorded.ring)
        self.lookahead = lookahead
        self.name = name
        self.request: Any = Request(name, num_prompt_tokens=2)
        self.followed: Followed = follow(self.request, "all")
        self.followed.blocks = len(sizes)
        self.tables.look(self.followed, 1)

    @property
    def held(self) -> int:
        return sum(len(one.req_to_blocks[self.name]) for one in self.managers)

    def step(self, step_id: int, tokens: int = 1, resumed: bool = False) -> int:
        """How many new blocks were written."""
        self.request.num_computed_tokens += tokens
        for one in self.managers:
            need = -(-(self.request.num_computed_tokens + self.lookahead) // one.block_size)
            one.req_to_blocks[self.name] += [0] * (need - len(one.req_to_blocks[self.name]))
        self.looks += self.followed.due_step == step_id
        output = SimpleNamespace(
            num_scheduled_tokens={self.name: tokens} if tokens else {},
            scheduled_cached_reqs=SimpleNamespace(resumed_req_ids={self.name} if resumed else set()),
        )
        if step_id in self.tables.due:
            self.tables.grown(step_id, output)
        return self.written()

    def written(self) -> int:
        """Blocks since the last call; each record has what the request holds."""
        rows = [row for _, row in self.recorded.rows()]
        for row in rows:
            assert (row["request_id"], row["kv_blocks"]) == (self.name, self.followed.blocks)
            assert row["computed_tokens"] == self.request.num_computed_tokens
            assert row["prompt_tokens"] == self.followed.prompt_tokens
        return sum(row["kv_blocks_delta"] for row in rows)


@pytest.mark.parametrize("lookahead", [0, 1, 3])
def test_who_decodes_is_seen_at_every_eighth_step_and_few_steps_are_looked_at(tmp_path: Path, lookahead: int) -> None:
    batch, held = Batch(tmp_path, lookahead=lookahead), 1
    for step_id in range(1, 6 * LOOK_STEPS + 1):
        held += batch.step(step_id)
        assert step_id % LOOK_STEPS or held == batch.held
    assert batch.looks <= 6 + 3


def test_a_name_that_fills_no_single_slot_is_written_too(tmp_path: Path) -> None:
    batch, held = Batch(tmp_path, name="x" * 300), 1
    for step_id in range(1, 2 * LOOK_STEPS + 1):
        held += batch.step(step_id)
    assert held == batch.held


def test_nobody_is_kept_to_be_looked_at_long_after(tmp_path: Path) -> None:
    batch = Batch(tmp_path, sizes=(10**6,))
    for step_id in range(1, 3 * FURTHEST_STEPS):
        assert batch.step(step_id) == 0
        assert step_id < batch.followed.due_step <= step_id + FURTHEST_STEPS + LOOK_STEPS
    assert batch.looks < 6


def test_what_was_not_looked_at_yet_is_written_before_it_leaves(tmp_path: Path) -> None:
    batch, held = Batch(tmp_path), 1
    for step_id in range(1, LOOK_STEPS):
        held += batch.step(step_id)
    assert held < batch.held
    for step_id in (LOOK_STEPS - 1, LOOK_STEPS - 1):
        batch.tables.catch_up(batch.followed, step_id)
        held += batch.written()
        assert held == batch.held
    looks = batch.looks
    assert [batch.step(step_id) for step_id in range(LOOK_STEPS, 3 * LOOK_STEPS)] == [0] * 2 * LOOK_STEPS
    assert batch.looks == looks


def test_steps_of_several_tokens_and_idle_ones_are_followed(tmp_path: Path) -> None:
    batch, held = Batch(tmp_path, tokens_a_step=3), 1
    for step_id, tokens in enumerate([1, 3, 0, 2, 3, 3, 0, 0, 1, 1, 3, 2, 3, 3, 3, 1], start=1):
        held += batch.step(step_id, tokens)
        assert step_id % LOOK_STEPS or held == batch.held


def test_a_prompt_in_parts_is_looked_at_in_each_step(tmp_path: Path) -> None:
    batch, held = Batch(tmp_path), 1
    batch.followed.prompt_tokens = 30
    for step_id, tokens in enumerate([1, 5, 9, 1, 14, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], start=1):
        held += batch.step(step_id, tokens)
        assert (step_id > 5 and step_id % LOOK_STEPS) or held == batch.held


def test_blocks_of_all_groups_count(tmp_path: Path) -> None:
    batch, held = Batch(tmp_path, sizes=(BLOCK, 6)), 2
    for step_id in range(1, 4 * LOOK_STEPS + 1):
        held += batch.step(step_id)
        assert step_id % LOOK_STEPS or held == batch.held


def test_who_resumes_is_looked_at_in_that_step(tmp_path: Path) -> None:
    batch = Batch(tmp_path)
    batch.tables.catch_up(batch.followed, 0)
    assert [batch.step(step_id) for step_id in range(1, 12)] == [0] * 11
    batch.tables.look(batch.followed, 12)
    assert batch.step(12, resumed=True) == 2
