"""When a request is looked at for new blocks, and what is found."""

from types import SimpleNamespace
from typing import Any

import pytest

from oomctl.collectors.agent.requests import Followed, follow
from oomctl.collectors.agent.tables import BlockTables
from tests.agent.scheduling import Request

BLOCK = 4


class Batch:
    """One request that decodes, in an engine with a table for each KV cache group."""

    def __init__(self, sizes: tuple[int, ...] = (BLOCK,), tokens_a_step: int = 1, lookahead: int = 0) -> None:
        self.managers = [SimpleNamespace(req_to_blocks={"a": [0]}, block_size=size) for size in sizes]
        self.looks = 0
        manager = SimpleNamespace(coordinator=SimpleNamespace(single_type_managers=self.managers))
        scheduler = SimpleNamespace(
            kv_cache_manager=manager, block_size=BLOCK, num_spec_tokens=tokens_a_step - 1, num_lookahead_tokens=lookahead
        )
        self.tables = BlockTables(scheduler)
        self.lookahead = lookahead
        self.request: Any = Request("a", num_prompt_tokens=2)
        self.followed: Followed = follow(self.request, "all")
        self.followed.blocks = len(sizes)
        self.tables.look(self.followed, 1)

    def step(self, step_id: int, tokens: int = 1, resumed: bool = False) -> list[int]:
        """New blocks that were seen."""
        self.request.num_computed_tokens += tokens
        for one in self.managers:
            need = -(-(self.request.num_computed_tokens + self.lookahead) // one.block_size)
            one.req_to_blocks["a"] += [0] * (need - len(one.req_to_blocks["a"]))
        self.looks += self.followed.due_step == step_id
        output = SimpleNamespace(
            num_scheduled_tokens={"a": tokens} if tokens else {},
            scheduled_cached_reqs=SimpleNamespace(resumed_req_ids={"a"} if resumed else set()),
        )
        return [delta for _, _, _, delta, *_ in self.tables.grown(step_id, output)]


@pytest.mark.parametrize("lookahead", [0, 1, 3])
def test_a_block_is_seen_in_its_step_and_few_steps_are_looked_at(lookahead: int) -> None:
    batch = Batch(lookahead=lookahead)
    seen = [batch.step(step_id) for step_id in range(1, 42)]
    expected = [[1] if (step_id + lookahead) % BLOCK == 1 and step_id + lookahead > 1 else [] for step_id in range(1, 42)]
    assert seen == expected
    assert batch.looks <= 14


def test_steps_of_several_tokens_and_idle_ones_are_followed() -> None:
    batch, held = Batch(tokens_a_step=3), 1
    for step_id, tokens in enumerate([1, 3, 0, 2, 3, 3, 0, 0, 1, 1, 3, 2, 3, 3, 3], start=1):
        held += sum(batch.step(step_id, tokens))
        assert held == len(batch.managers[0].req_to_blocks["a"])


def test_a_prompt_in_parts_is_looked_at_in_each_step() -> None:
    batch, held = Batch(), 1
    batch.followed.prompt_tokens = 30
    for step_id, tokens in enumerate([1, 5, 9, 1, 14, 1, 1, 1, 1], start=1):
        held += sum(batch.step(step_id, tokens))
        assert held == len(batch.managers[0].req_to_blocks["a"])


def test_blocks_of_all_groups_count() -> None:
    batch, held = Batch(sizes=(BLOCK, 6)), 2
    for step_id in range(1, 30):
        held += sum(batch.step(step_id))
        assert held == sum(len(one.req_to_blocks["a"]) for one in batch.managers)


def test_who_has_left_is_looked_at_no_more() -> None:
    batch = Batch()
    batch.followed.due_step = 0
    assert [batch.step(step_id) for step_id in range(1, 12)] == [[]] * 11
    batch.tables.look(batch.followed, 12)
    assert batch.step(12, resumed=True) == [2]
