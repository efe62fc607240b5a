"""The replay's pool: blocks are conserved, what is held stays, and the longest unused goes first, from its end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.analyzers.capacity.replay.blocks import BlockPool


def _fill(pool: BlockPool, extents: list[int]) -> None:
    assert pool.take(len(extents) * pool.extent_blocks)
    for each in extents:
        assert pool.name(each)


def test_what_nobody_holds_is_found_until_its_blocks_are_wanted() -> None:
    pool = BlockPool(8, 2)
    _fill(pool, [1, 2, 3])
    pool.let_go([1, 2, 3])
    assert (pool.held_blocks, pool.cached_blocks, pool.free_blocks) == (0, 6, 2)
    assert pool.cached_extents([1, 2, 3, 4], 4) == 3
    assert pool.take(3), "one extent is evicted, the last"
    assert pool.cached_extents([1, 2, 3], 3) == 2 and pool.evicted_blocks == 2
    assert pool.available_beside([1, 2], 1) == 3
    pool.hold([1])
    assert not pool.take(4)
    assert pool.take(3) and pool.cached_extents([1, 2], 2) == 1
    pool.check()


def test_a_second_copy_gets_no_name() -> None:
    pool = BlockPool(8, 1)
    _fill(pool, [7])
    assert pool.take(1) and not pool.name(7)
    pool.check()


def test_a_copy_takes_the_name_over_once_the_first_has_been_evicted() -> None:
    pool = BlockPool(3, 1)
    _fill(pool, [7])
    assert pool.take(1)
    pool.let_go([7])
    assert pool.take(2) and pool.cached_extents([7], 1) == 0
    pool.give_back_copies([7])
    pool.check()
    assert pool.cached_extents([7], 1) == 1 and pool.held_blocks == 2


def test_who_comes_back_finds_what_is_left_of_its_own_blocks() -> None:
    pool = BlockPool(6, 1)
    assert pool.take(4)
    names = pool.leave(4, filled=3)
    assert (pool.held_blocks, pool.cached_blocks, pool.left(names, 9), pool.left(names, 2)) == (0, 3, 3, 2)
    assert pool.take(4), "one of them is evicted, the last"
    assert pool.left(names, 9) == 2
    pool.retake(names[:2])
    pool.check()
    assert (pool.held_blocks, pool.cached_blocks) == (6, 0)


def test_what_was_generated_is_evicted_in_its_turn_but_never_found() -> None:
    pool = BlockPool(6, 1)
    _fill(pool, [1])
    assert pool.take(3)
    pool.give_back(3, filled=2)
    pool.let_go([1])
    assert (pool.cached_blocks, pool.free_blocks) == (3, 3)
    assert pool.take(4) and pool.cached_extents([1], 1) == 1, "older than the prompt before it"
    assert pool.take(2) and pool.cached_extents([1], 1) == 0
    pool.check()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 6)), max_size=60))
def test_blocks_are_conserved_and_a_held_one_is_never_freed(steps: list[tuple[int, int, int]]) -> None:
    pool = BlockPool(20, 2)
    holders: list[tuple[list[int], int]] = []
    for kind, tree, length in steps:
        prompt = [0, 1, *range(10 * tree + 10, 10 * tree + 10 + length)]
        if kind < 2:
            hit = pool.cached_extents(prompt, len(prompt))
            wanted = 2 * (len(prompt) - hit) + length
            if wanted <= pool.available_beside(prompt, hit):
                pool.hold(prompt[:hit])
                assert pool.take(wanted)
                named = hit
                while named < len(prompt) and pool.name(prompt[named]):
                    named += 1
                holders.append((prompt[:named], wanted - 2 * (named - hit)))
        elif holders:
            extents, nameless = holders.pop(tree % len(holders))
            pool.give_back(nameless, min(nameless, length))
            pool.let_go(extents)
        pool.check()
        for extents, _ in holders:
            assert pool.cached_extents(extents, len(extents)) == len(extents)
        distinct = {each for extents, _ in holders for each in extents}
        assert pool.held_blocks == 2 * len(distinct) + sum(nameless for _, nameless in holders)
