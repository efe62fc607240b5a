"""The replay of a paged engine, against what can be counted by hand, and against a plain engine that takes every step."""

from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.analyzers.capacity.admission import Forecast, Known, MaxTokens, Outputs, Quantile, Running, State
from oomctl.analyzers.capacity.replay.engine import Engine
from oomctl.analyzers.capacity.replay.fixed import replay_fixed
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.machine import Machine
from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.workload import Workload
from tests.capacity.played import workload


def _play(work: Workload, gate: Gate | None = None, **machine: float) -> tuple[Run, Engine]:
    engine = Engine(work, Machine(**machine), gate if gate is not None else Gate(None))  # type: ignore[arg-type]
    run = engine.play()
    engine.pool.check()
    assert engine.pool.held_blocks == 0
    return run, engine


def test_one_request_takes_its_prompt_and_its_tokens() -> None:
    run, _ = _play(workload([(1.0, 800, 11)]), total_blocks=100)
    (one,) = run.outcomes
    assert abs(one.first_token_s - 1.1) < 1e-9 and abs(one.end_s - 1.4) < 1e-9
    # The last token is returned, not computed: 810 tokens in the cache.
    assert run.usage.peak_blocks == 51


def test_prompts_are_computed_in_chunks_beside_those_that_decode() -> None:
    run, _ = _play(workload([(0.0, 100, 50), (0.0, 1000, 1)]), total_blocks=100, max_num_batched_tokens=500)
    first, second = run.outcomes
    # 100 and 400 tokens in the first step, 499 beside one that decodes, then 101.
    assert abs(first.first_token_s - 500 / 8000) < 1e-9
    assert abs(second.first_token_s - (1100 / 8000 + 2 * 0.03)) < 1e-9


def test_a_prefix_is_found_but_for_its_last_token() -> None:
    ids = [[1, 2, 3], [1, 2, 3], [1, 2]]
    run, _ = _play(workload([(0.0, 48, 2), (9.0, 48, 2), (18.0, 40, 2)], ids), total_blocks=100)
    assert [each.hit_tokens for each in run.outcomes] == [0, 32, 32]
    assert [each.computed_tokens for each in run.outcomes] == [48, 16, 8]


def test_two_that_run_at_once_share_their_prefix() -> None:
    ids = [[1, 2, 3, 4], [1, 2, 3, 5]]
    alone, _ = _play(workload([(0.0, 70, 40), (0.0, 70, 40)]), total_blocks=100)
    shared, _ = _play(workload([(0.0, 70, 40), (0.1, 70, 40)], ids), total_blocks=100)
    assert (alone.usage.peak_blocks, shared.usage.peak_blocks) == (14, 11)


def test_the_last_scheduled_is_preempted_and_computed_again() -> None:
    run, _ = _play(workload([(0.0, 64, 60), (0.0, 64, 60)]), total_blocks=12)
    first, second = run.outcomes
    assert (first.preemptions, second.preemptions) == (0, 1)
    # Both fill their sixth block with 96 tokens; then one gives way, and the first takes its last two blocks.
    assert second.recomputed_tokens == 96 - 64
    assert second.end_s > first.end_s and run.usage.peak_blocks == 12


def test_a_prompt_begins_when_all_of_it_has_room_however_small_its_first_chunk() -> None:
    run, _ = _play(workload([(0.0, 64, 60), (0.0, 160, 4)]), total_blocks=12, max_num_batched_tokens=80)
    first, second = run.outcomes
    assert second.preemptions == 0 and second.first_token_s > first.end_s


def test_who_was_preempted_in_its_prompt_finds_what_it_left() -> None:
    ids = [[1, 2, 3, 4], [5, 6, 7, 8, 9, 10]]
    run, _ = _play(workload([(0.0, 64, 30), (0.0, 97, 3)], ids), total_blocks=11, max_num_batched_tokens=80)
    _, second = run.outcomes
    # One of its first chunk of 16 tokens; what it had computed when the other needed a block, less what that one took.
    assert (second.hit_tokens, second.preemptions) == (0, 1)
    assert 0 < second.recomputed_tokens < 97


def test_branches_copy_the_last_block_of_the_prompt() -> None:
    run, _ = _play(workload([(0.0, 40, 5)], branches=3), total_blocks=20)
    assert (run.copied_blocks, run.usage.peak_blocks) == (2, 5)


def test_what_cannot_run_alone_is_rejected_and_the_rest_goes_on() -> None:
    run, _ = _play(workload([(0.0, 1000, 5), (0.0, 10, 5)]), total_blocks=20)
    assert [each.fate for each in run.outcomes] == ["rejected", "finished"]
    assert run.reasons == {"too_large": 1}


def test_who_gives_up_holds_nothing_afterwards() -> None:
    work = workload([(0.0, 64, 1000), (0.0, 64, 1000), (5.0, 64, 10)])
    for job in work.jobs[:2]:
        job.cancel_after_s = 1.0
    gate = Gate(State(6, MaxTokens(), queue_limit=5, block_tokens=16))
    for job in work.jobs:
        job.output_tokens = min(job.output_tokens, 20)
    run, _ = _play(work, gate, total_blocks=6)
    assert run.outcomes[2].fate == "rejected", "it may generate more than the pool has"
    run, _ = _play(work, total_blocks=6)
    assert [each.fate for each in run.outcomes] == ["finished", "cancelled", "finished"]


def test_a_policy_keeps_the_engine_from_preempting() -> None:
    requests = [(0.01 * number, 64, 60) for number in range(20)]
    free, _ = _play(workload(requests), total_blocks=24)
    kept, _ = _play(workload(requests), Gate(State(24, Known())), total_blocks=24)
    assert sum(each.preemptions for each in free.outcomes) > 0
    assert sum(each.preemptions for each in kept.outcomes) == 0
    assert sum(each.queued for each in kept.outcomes) == 17
    assert all(each.fate == "finished" for each in kept.outcomes)


def test_a_policy_hears_of_progress_where_blocks_are_large() -> None:
    told: list[int] = []

    class Listens(Known):
        def produced(self, state: State, running: Running, before_blocks: int) -> None:
            told.append(running.output_tokens)

    _play(
        workload([(0.0, 64, 100)], block_tokens=128),
        Gate(State(9, Listens(), block_tokens=128)),
        total_blocks=9,
        block_tokens=128,
    )
    assert told == [1, 33, 65, 65, 97, 100], "every 32 tokens, when a block is full, and at the end"


def test_fixed_speeds_reserve_as_the_policy_says() -> None:
    requests = [(0.0, 16, 32), (0.0, 16, 32), (0.1, 16, 16)]
    run = replay_fixed(workload(requests), State(6, Known()))
    assert [each.queued for each in run.outcomes] == [False, False, True]
    assert run.outcomes[2].admitted_s == run.outcomes[0].end_s == 16 / 8000 + 32 * 0.03
    assert run.usage.peak_blocks == run.peak_need_blocks == 6
    rash = replay_fixed(workload(requests), State(6, Quantile(Outputs([1] * 9, learns=False), 0.5)))
    assert rash.usage.peak_blocks == 8 and rash.usage.over_s > 0, "more is held than there is, and it is told"


def test_who_waits_is_passed_by_those_that_fit_but_not_for_ever() -> None:
    # One of 4 blocks that stays for 3 s, one of 6 that waits for it, and small ones of a second each.
    requests = [(0.0, 48, 16), (0.1, 96, 16), *((0.2 + 0.1 * number, 16, 16) for number in range(20))]

    def queued(overtake_s: float) -> list[bool]:
        state = State(8, Known(), tpot_s=0.2, overtake_s=overtake_s)
        return [each.queued for each in replay_fixed(workload(requests), state).outcomes]

    assert queued(0.0) == [False] + [True] * 21
    assert queued(1.0)[:5] == [False, True, False, False, True]
    run = replay_fixed(workload(requests), State(8, Known(), tpot_s=0.2, overtake_s=1.0))
    long_wait = run.outcomes[1]
    later = [each for each in run.outcomes[2:] if long_wait.arrival_s + 1.0 <= each.admitted_s < long_wait.admitted_s]
    assert not later and run.outcomes[2].admitted_s < long_wait.admitted_s


JOBS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 120), st.integers(1, 60), st.integers(0, 3)), min_size=1, max_size=14
)


@settings(max_examples=30, deadline=None)
@given(JOBS, st.integers(12, 40), st.booleans())
def test_the_jumps_lead_where_single_steps_do(jobs: list[tuple[int, int, int, int]], total: int, gated: bool) -> None:
    requests = sorted((parts / 16, prompt, output) for parts, prompt, output, _ in jobs)
    ids = [
        list(range(100 * tree, 100 * tree + prompt // 16))
        for (_, prompt, _), (_, _, _, tree) in zip(requests, jobs, strict=True)
    ]
    # Times that are sums of powers of two: else an arrival at the very moment of a step falls on either side of it.
    machine = Machine(total, max_num_batched_tokens=64, prefill_tokens_per_s=8192.0, tpot_s=0.03125)
    work, plain = workload(requests, ids), workload(requests, ids)

    def gate() -> Gate:
        return Gate(State(total, Forecast(Outputs([30] * 10)), queue_limit=5)) if gated else Gate(None)

    jumping = Engine(work, machine, gate())
    stepping = _Stepping(plain, machine, gate())
    one, other = jumping.play(), stepping.play()
    jumping.pool.check()
    assert jumping.step == stepping.step
    for left, right in zip(one.outcomes, other.outcomes, strict=True):
        assert (left.fate, left.queued, left.hit_tokens, left.preemptions, left.recomputed_tokens) == (
            right.fate, right.queued, right.hit_tokens, right.preemptions, right.recomputed_tokens,
        )  # fmt: skip
        assert left.fate != "finished" or abs(left.end_s - right.end_s) < 1e-6
    assert one.usage.peak_blocks == other.usage.peak_blocks <= total


class _Stepping(Engine):
    """The same engine without jumps: it looks at the world after every step."""

    def _steps_until(self, next_s: float) -> int:
        return 1


def _session(tool_waits: str, total_blocks: int = 100) -> Run:
    """Two turns of a session, the second a wait of 10 s for a tool after the first; between them somebody else."""
    ids = [[1, 2, 3], [7, 8, 9, 10, 11, 12], [1, 2, 3, 4, 5]]
    work = workload([(0.0, 48, 33), (1.5, 96, 2), (0.0, 88, 5)], ids)
    first, _, second = work.jobs
    first.next_turn, second.arrival_s, second.pause_s, second.waits_for_tool = 2, float("inf"), 10.0, True
    return _play(work, total_blocks=total_blocks, tool_waits=tool_waits)[0]  # type: ignore[arg-type]


def test_a_context_waits_for_its_tool_in_the_pool_on_the_host_or_in_the_cache() -> None:
    found = {each: _session(each) for each in ("recompute", "preserve", "offload")}
    assert [run.outcomes[2].hit_tokens for run in found.values()] == [48, 80, 80]
    cached, kept, moved = (run.usage.mean_blocks for run in found.values())
    assert kept > 5 * cached and kept > 5 * moved, "on the host it takes no blocks, but for the way"
    assert all(run.outcomes[2].fate == "finished" for run in found.values())


def test_a_context_that_waits_gives_way_to_those_that_run() -> None:
    run = _session("preserve", total_blocks=8)
    assert [each.preemptions for each in run.outcomes] == [0, 0, 0]
    assert run.outcomes[1].end_s < 2 and run.outcomes[2].hit_tokens == 16, "what the cache has left of it"
