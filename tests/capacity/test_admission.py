"""The admission rule: what it imports, what it counts, and what holds of every policy."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cpu import imported
from oomctl.analyzers.capacity.admission import (
    EarlyRejection,
    Forecast,
    Known,
    MaxTokens,
    Oracle,
    Outputs,
    Policy,
    PredictiveRatio,
    Quantile,
    Request,
    Scope,
    State,
    SumQuantile,
    decide,
)
from oomctl.analyzers.capacity.admission.outputs import Lengths
from oomctl.analyzers.capacity.admission.request import blocks_of

SEEN = [10] * 80 + [100] * 15 + [600] * 5
POLICIES: dict[str, Callable[[], Policy]] = {
    "max-tokens": MaxTokens,
    "quantile": lambda: Quantile(Outputs(SEEN), 0.95),
    "sum-quantile": lambda: SumQuantile(Outputs(SEEN)),
    "forecast": lambda: Forecast(Outputs(SEEN)),
    "ratio": PredictiveRatio,
    "early-rejection": lambda: EarlyRejection(Outputs(SEEN)),
    "known": Known,
    "oracle": Oracle,
}
each_policy = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES.keys())


def test_a_gateway_imports_the_standard_library_alone() -> None:
    found = imported(["-c", "import oomctl.analyzers.capacity.admission"])
    assert "oomctl" in found
    assert found.isdisjoint({"numpy", "polars", "duckdb", "msgspec", "typer", "pyarrow", "asyncio", "importlib.metadata"})


@pytest.mark.parametrize(
    ("prompt", "output", "branches", "blocks"),
    [
        (16, 0, 1, 1),
        (17, 0, 1, 2),
        (16, 1, 1, 2),
        (17, 15, 1, 2),
        (17, 16, 1, 3),
        (17, 0, 4, 2),
        (17, 1, 4, 5),
        (16, 1, 4, 5),
    ],
)
def test_blocks_are_whole_and_each_branch_has_its_own(prompt: int, output: int, branches: int, blocks: int) -> None:
    assert blocks_of(prompt, output, branches, 16) == blocks


def test_lengths_tell_what_follows() -> None:
    lengths = Lengths([2, 4, 4, 10])
    assert [lengths.quantile(q) for q in (0.0, 0.5, 1.0)] == [2, 4, 10]
    # Two of four, and the imagined one that never ends, go beyond 3 tokens... of five.
    assert lengths.alive[3] == 4 / 5 and lengths.alive[4] == 2 / 5
    assert lengths.rest[9] == 1.0 and lengths.rest_variance[9] == 0.0
    assert lengths.rest[4] == pytest.approx(6.0)
    assert Lengths([]).quantile(0.5) is None


def test_an_admitted_request_is_counted_until_it_leaves() -> None:
    state = State(10, MaxTokens(), queue_limit=1)
    first = decide(state, Request("a", 33, 30))
    assert (first.action, first.reservation[:4]) == ("admit", (3, 0, 30, 1))
    state.enter(Request("a", 33, 30))
    assert state.used_blocks == 3
    assert state.produce("a", 16) == 1
    assert decide(state, Request("b", 90, 16)).reservation.peak_blocks == 4 + 7
    assert decide(state, Request("b", 90, 16))[:2] == ("queue", "no_room")
    assert decide(state, Request("b", 10, 16), ahead=1)[:2] == ("reject", "queue_full")
    assert decide(state, Request("b", 160, 16))[:2] == ("reject", "too_large")
    assert state.leave("a") == 4
    assert decide(state, Request("b", 90, 16)).action == "admit"


def test_one_that_fits_passes_those_that_do_not_for_a_while() -> None:
    state = State(10, MaxTokens(), overtake_s=5.0)
    state.enter(Request("a", 33, 30))
    small = Request("s", 10, 16)
    assert decide(state, small, ahead=1, waited_s=4.9)[:2] == ("admit", "fits")
    assert decide(state, Request("l", 90, 16), ahead=1, waited_s=4.9)[:2] == ("queue", "no_room")
    assert decide(state, small, ahead=1, waited_s=5.0)[:2] == ("queue", "behind_others")
    assert decide(state, small, ahead=1)[:2] == ("queue", "behind_others"), "who does not say is served in order"


def test_a_deadline_bounds_what_is_reserved() -> None:
    state = State(100, MaxTokens(), prefill_tokens_per_s=1000.0, tpot_s=0.1)
    assert decide(state, Request("a", 1000, 500, deadline_s=3.0)).reservation.output_tokens == 20
    assert decide(state, Request("a", 1000, 500, deadline_s=1.0))[:2] == ("reject", "deadline")


def test_only_held_blocks_of_the_same_scope_are_found() -> None:
    ours, theirs = Scope(tenant="a"), Scope(tenant="b")
    state = State(100, MaxTokens())
    asks = Request("x", 65, 15, prefix=(1, 2, 3, 4), scope=ours)
    assert decide(state, asks).reservation.found_blocks == 0
    state.enter(Request("first", 65, 15, prefix=(1, 2, 3, 9), scope=ours))
    assert decide(state, asks).reservation[:2] == (2, 3)
    for field in Scope._fields:
        other = Request("x", 65, 15, prefix=(1, 2, 3, 4), scope=ours._replace(**{field: "other"}))
        assert decide(state, other).reservation.found_blocks == 0
    # The whole prompt: its last token is computed all the same.
    assert state.found_blocks(Request("x", 48, 15, prefix=(1, 2, 3), scope=ours)) == 2
    state.enter(asks)
    assert state.leave("first") == 2, "three are held by the second still"
    assert state.used_blocks == 5 and state.named_blocks == 2
    assert state.found_blocks(Request("y", 65, 1, prefix=(1, 2, 3), scope=ours)) == 3
    assert state.found_blocks(Request("y", 65, 1, prefix=(1, 2, 3), scope=theirs)) == 0
    assert state.leave("x") == 5 and state.used_blocks == state.named_blocks == 0
    assert state.found_blocks(Request("y", 65, 1, prefix=(1, 2, 3), scope=ours)) == 0, "a cache is no discount"


@each_policy
def test_one_that_fits_an_empty_pool_alone_enters(make: Callable[[], Policy]) -> None:
    state = State(70, make())
    assert decide(state, Request("a", 16, 1000, output_tokens=500)).action == "admit"


REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 200),  # prompt
        st.integers(1, 300),  # output
        st.sampled_from((1, 1, 2, 4)),  # branches
        st.sampled_from(("a", "b")),  # tenant
        st.integers(0, 4),  # how many blocks of its prompt are common ones
        st.integers(0, 3),  # what happens next
    ),
    max_size=25,
)


@each_policy
@settings(max_examples=15, deadline=None)
@given(REQUESTS)
def test_blocks_are_conserved_and_nothing_is_shared_across_tenants(
    make: Callable[[], Policy], asked: list[tuple[int, int, int, str, int, int]]
) -> None:
    state = State(400, make())
    inside: dict[str, Request] = {}
    for number, (prompt, output, branches, tenant, common, step) in enumerate(asked):
        prefix = tuple(range(common)) + tuple(range(1000 + 100 * number, 1020 + 100 * number))
        request = Request(str(number), prompt, 300, prefix, Scope(tenant), branches, output_tokens=output)
        decision = decide(state, request)
        others = [each for each in inside.values() if each.scope == request.scope and each.prefix[:1] == prefix[:1]]
        if not others:
            assert decision.reservation.found_blocks == 0
        if decision.action == "admit":
            state.enter(request)
            inside[request.request] = request
        if inside and step:
            name = next(iter(inside))
            state.produce(name, (inside[name].output_tokens or 0) // step)
            if step == 3:
                state.leave(name)
                del inside[name]
        held: set[tuple[Scope, int]] = set()
        private = 0
        for each in state.running.values():
            asked_for = each.request
            whole = blocks_of(asked_for.prompt_tokens, max(0, each.output_tokens), asked_for.branches, 16)
            held |= {(asked_for.scope, block) for block in each.prefix}
            private += whole - len(each.prefix)
        assert state.used_blocks == private + len(held)
        assert state.named_blocks == sum(each.blocks for each in state.running.values())
    for name in list(inside):
        state.leave(name)
    assert state.used_blocks == state.named_blocks == 0


@each_policy
@settings(max_examples=15, deadline=None)
@given(REQUESTS, st.integers(50, 300), st.integers(0, 200), st.integers(1, 300))
def test_more_free_blocks_never_make_a_decision_worse(
    make: Callable[[], Policy], asked: list[tuple[int, int, int, str, int, int]], total: int, more: int, prompt: int
) -> None:
    small, large = State(total, make()), State(total + more, make())
    for number, (each_prompt, output, branches, tenant, _, _) in enumerate(asked):
        for state in (small, large):
            state.enter(Request(str(number), each_prompt, 300, (), Scope(tenant), branches, output_tokens=output))
    order = ("reject", "queue", "admit")
    asks = Request("new", prompt, 300, output_tokens=40)
    assert order.index(decide(small, asks).action) <= order.index(decide(large, asks).action)


def test_sglang_ratio_falls_with_time_and_rises_with_a_retraction() -> None:
    policy = PredictiveRatio()
    state = State(1000, policy)
    state.enter(Request("a", 100, 500))
    assert policy.ratio(state) == 0.7
    state.now_s = 300 * state.tpot_s
    assert policy.ratio(state) == pytest.approx((0.7 + 0.098) / 2)
    state.produce("a", 480)
    state.retract("a")
    assert policy.ratio(state) == pytest.approx(500 / 501)
    state.now_s += 1e6
    assert policy.ratio(state) == 0.098


def test_early_rejection_looks_at_the_moment_when_the_prompt_is_done() -> None:
    policy = EarlyRejection(Outputs([100] * 50, learns=False))
    state = State(100, policy, prefill_tokens_per_s=1000.0, tpot_s=0.1)
    state.enter(Request("a", 800, 100))  # ends after 0.8 s and 10 s
    assert decide(state, Request("b", 900, 100)).action == "reject"
    state.now_s = 10.5
    assert decide(state, Request("b", 900, 100)).action == "admit", "by the end of its prefill the other has gone"


@each_policy
@settings(max_examples=15, deadline=None)
@given(REQUESTS)
def test_nobody_enters_whose_prompt_has_no_room(
    make: Callable[[], Policy], asked: list[tuple[int, int, int, str, int, int]]
) -> None:
    state = State(60, make())
    if state.policy.rejects:
        return  # it looks at a later moment alone
    for number, (prompt, output, branches, _, _, step) in enumerate(asked):
        request = Request(str(number), prompt, 300, (), branches=branches, output_tokens=output)
        if decide(state, request).action == "admit":
            state.enter(request)
            assert state.used_blocks <= state.total_blocks
        if step and state.running:
            state.leave(next(iter(state.running)))
