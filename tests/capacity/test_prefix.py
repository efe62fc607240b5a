"""What requests share, worked out on whole arrays, equals what a plain cache of blocks says, one block at a time."""

from collections import OrderedDict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.analyzers.capacity.active import levels, shared_changes
from oomctl.analyzers.capacity.prefix import NONE, engine_hit_tokens, hit_tokens, lru_hits, shared_with_previous, sharing
from oomctl.schemas.trace import Prefixes

Prompt = tuple[int, ...]
PROMPTS = st.lists(st.lists(st.integers(0, 2), max_size=6).map(tuple), min_size=1, max_size=25)
"""Prompts as what stands in each block; equal ones have equal beginnings often."""
BLOCK = 4


def prefixes_of(prompts: list[Prompt]) -> Prefixes:
    """Ids by the whole prefix up to a block, as hashes of engines are."""
    numbers: dict[Prompt, int] = {}
    ids = [[numbers.setdefault(prompt[: end + 1], len(numbers)) for end in range(len(prompt))] for prompt in prompts]
    flat = np.array([one for row in ids for one in row], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, ids)])
    return Prefixes(flat, offsets, max(len(numbers), 1), BLOCK, "floor")


def plain_lru(prompts: list[Prompt], capacity: int) -> list[int]:
    cache: OrderedDict[Prompt, None] = OrderedDict()
    found = []
    for prompt in prompts:
        blocks = [prompt[: end + 1] for end in range(len(prompt))]
        hits = 0
        while hits < len(blocks) and blocks[hits] in cache:
            hits += 1
        found.append(hits)
        for block in reversed(blocks):  # the last block of a prompt is the first to go
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return found


@given(PROMPTS, st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_lru(prompts: list[Prompt], capacity: int) -> None:
    prefixes = prefixes_of(prompts)
    small, given_size, endless = lru_hits(prefixes, [1, capacity, 10**6]).tolist()
    assert given_size == plain_lru(prompts, capacity)
    assert small == plain_lru(prompts, 1)
    assert endless == sharing(prefixes, prefixes.counts).shared_blocks.tolist()


@given(PROMPTS)
@settings(max_examples=50, deadline=None)
def test_sharing_and_branches(prompts: list[Prompt]) -> None:
    prefixes = prefixes_of(prompts)
    seen: set[Prompt] = set()
    shared, branches = [], []
    for prompt in prompts:
        hits = 0
        while hits < len(prompt) and prompt[: hits + 1] in seen:
            hits += 1
        shared.append(hits)
        went_on = any(len(other) == hits + 1 and other[:hits] == prompt[:hits] for other in seen)
        branches.append(0 < hits < len(prompt) and went_on)
        seen |= {prompt[: end + 1] for end in range(len(prompt))}
    found = sharing(prefixes, prefixes.counts)
    assert found.shared_blocks.tolist() == shared
    assert found.branches.tolist() == branches


@given(PROMPTS, st.data())
@settings(max_examples=50, deadline=None)
def test_blocks_alive_are_counted_once(prompts: list[Prompt], data: st.DataObject) -> None:
    """As sets of blocks say at each instant, whatever overlaps."""
    prefixes = prefixes_of(prompts)
    starts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(prompts), max_size=len(prompts))), dtype=float)
    stops = starts + np.array(data.draw(st.lists(st.integers(1, 5), min_size=len(prompts), max_size=len(prompts))))
    at_start, at_end = shared_changes(prefixes, prefixes.counts, starts, stops)
    level = levels(starts, stops, prefixes.counts - at_start, prefixes.counts - at_end)
    passed = np.cumsum([starts.min(), *level.seconds])
    for value, begin, end in zip(level.values.tolist(), passed[:-1], passed[1:], strict=True):
        if end > begin:
            alive = [ids for ids, start, stop in zip(prefixes, starts, stops, strict=True) if start <= begin < stop]
            assert value == len({one for ids in alive for one in ids.tolist()})


def test_a_partly_filled_block_that_grew_is_no_branch() -> None:
    """Block 1 was half full, and is block 2 once it is whole: the prompt went on."""
    grown = Prefixes(np.array([0, 1, 0, 2, 3], dtype=np.int32), np.array([0, 2, 5]), 4, BLOCK, "ceil")
    assert sharing(grown, np.array([1, 3])).branches.tolist() == [False, False]
    other = Prefixes(np.array([0, 1, 0, 2], dtype=np.int32), np.array([0, 2, 4]), 3, BLOCK, "ceil")
    assert sharing(other, np.array([2, 2])).branches.tolist() == [False, True]


def test_hits_in_tokens() -> None:
    blocks, prompts = np.array([0, 1, 2, 3]), np.array([4, 4, 8, 10])
    assert hit_tokens(blocks, prompts, BLOCK).tolist() == [0, 4, 8, 10]
    assert engine_hit_tokens(blocks, prompts, BLOCK).tolist() == [0, 0, 4, 8]


def test_shared_with_the_turn_before() -> None:
    prefixes = prefixes_of([(0, 1), (0, 1, 2), (0, 2), ()])
    assert shared_with_previous(prefixes, np.array([NONE, 0, 1, 2])).tolist() == [NONE, 2, 1, 0]
