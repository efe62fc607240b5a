"""What a recorded engine did, replayed: requests come at the very steps at which the engine first saw them."""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from oomctl.analyzers.capacity.replay.engine import Engine
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.machine import Machine
from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.workload import Workload
from tests.capacity.played import workload
from tests.engine.load import Outcome
from tests.engine.recording import Recording
from tests.engine.server import BLOCK_TOKENS


@dataclass(frozen=True)
class Seen:
    """One request as the engine's scheduler saw it.

    Attributes:
        outcome: The client's view.
        step: The first step that could take it in.
        hit_tokens: Found in the cache when it was first scheduled.
        preemptions: Of it.
    """

    outcome: Outcome
    step: int
    hit_tokens: int
    preemptions: int


@dataclass(frozen=True)
class Played:
    """A stretch of an engine's life between two quiet instants.

    Attributes:
        requests: In the order of their arrival.
        used_blocks: After each step, by its id.
        recomputed_tokens: After preemptions.
        prompt_s, decode_s: Durations of steps that only decode; and (tokens, duration) of those that compute prompts.
    """

    requests: list[Seen]
    used_blocks: dict[int, int]
    recomputed_tokens: int
    decode_s: list[float]
    prompt_s: list[tuple[int, float]]


def played(recording: Recording, outcomes: Sequence[Outcome]) -> Played:
    """What the rings tell of these requests, which were alone in the engine.

    The scheduler looks at the queue at the beginning of a step, so a request can be taken in by the step that follows the
    last one that ended before it came.
    """
    steps = list(recording.of("core", "step"))
    pools = list(recording.of("core", "kv_pool"))
    ends = [step["seq"] for step in steps]
    by_name = recording.requests()
    found = []
    for outcome in outcomes:
        (events,) = [events for name, events in by_name.items() if f"-{outcome.wish.name}-" in name]
        names = Counter(event["event"] for event in events)
        (queued,) = [event for event in events if event["event"] == "queued"]
        (admitted,) = [event for event in events if event["event"] == "admitted"]
        before = bisect_left(ends, queued["seq"])
        seen = Seen(outcome, steps[before]["step_id"], admitted["cached_tokens"] or 0, names["preempted"])
        assert seen.step <= admitted["step_id"]
        found.append((queued["seq"], seen, events[-1]["step_id"]))
    found.sort(key=lambda each: each[0])
    first, last = found[0][1].step, max(step for _, _, step in found)
    mine = [pair for pair in zip(steps, pools, strict=True) if first <= pair[0]["step_id"] <= last]
    before_tokens = [pool["recomputed_tokens"] for step, pool in zip(steps, pools, strict=True) if step["step_id"] < first]
    return Played(
        [seen for _, seen, _ in found],
        {step["step_id"]: pool["used_blocks"] for step, pool in mine},
        mine[-1][1]["recomputed_tokens"] - (before_tokens[-1] if before_tokens else 0),
        [step["duration_us"] / 1e6 for step, _ in mine if not step["prefill_tokens"]],
        [(step["prefill_tokens"], step["duration_us"] / 1e6) for step, _ in mine if step["prefill_tokens"]],
    )


def tokens_of(outcomes: Sequence[Outcome]) -> list[list[int]]:
    """The tokens of each prompt: what the tokenizer puts before it is the same in all of them."""
    added = {(each.prompt_tokens or 0) - len(each.wish.prompt) for each in outcomes}
    assert len(added) == 1
    front = [-1] * added.pop()
    return [front + [int(word[1:]) for word in each.wish.prompt] for each in outcomes]


def as_work(outcomes: Sequence[Outcome], arrivals_s: Sequence[float]) -> Workload:
    """These requests at other times, their blocks named by all tokens up to their end."""
    numbers: dict[bytes, int] = {}
    asked, ids = [], []
    for tokens, outcome, arrival_s in zip(tokens_of(outcomes), outcomes, arrivals_s, strict=True):
        whole = len(tokens) // BLOCK_TOKENS
        chain = [hashlib.sha256(repr(tokens[: (place + 1) * BLOCK_TOKENS]).encode()).digest() for place in range(whole)]
        ids.append([numbers.setdefault(each, len(numbers)) for each in chain])
        asked.append((arrival_s, len(tokens), outcome.wish.output_tokens))
    return workload(asked, ids, block_tokens=BLOCK_TOKENS)


class _StepByStep(Engine):
    """A second is a step, and what is held after each is kept."""

    def __init__(self, work: Workload, machine: Machine) -> None:
        super().__init__(work, machine, Gate(None))
        self.after: dict[int, int] = {}

    def _step_s(self, prompt_tokens: int) -> float:
        return 1.0

    def _steps_until(self, next_s: float) -> int:
        return 1

    def _turn(self) -> bool:
        self.after[int(self.now_s) - 1] = self.pool.held_blocks
        return super()._turn()


def by_steps(
    engine: Played, usable_blocks: int, max_num_seqs: int, max_num_batched_tokens: int
) -> tuple[Run, dict[int, int]]:
    """Replay with the recorded arrivals; what is held after each of the engine's steps.

    With nothing to do the engine takes one step more, to tell its worker what has ended; the replay's clock jumps over it.
    """
    outcomes = [each.outcome for each in engine.requests]
    first = engine.requests[0].step
    work = as_work(outcomes, [each.step - first + 0.5 for each in engine.requests])
    machine = Machine(usable_blocks, BLOCK_TOKENS, max_num_seqs, max_num_batched_tokens, tpot_s=1.0)
    replay = _StepByStep(work, machine)
    run = replay.play()
    replay.pool.check()
    return run, {step: replay.after.get(step - first, 0) for step in engine.used_blocks}
