"""The replay beside a real engine with a pool that is too small: hits, blocks in use, preemptions, recomputation."""

import json
import random
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import pytest

from oomctl.analyzers.capacity.replay.engine import Engine
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.machine import Machine
from tests.engine import load
from tests.engine.load import Outcome, Wish
from tests.engine.recording import Recording
from tests.engine.replayed import Played, as_work, by_steps, played
from tests.engine.server import BLOCK_TOKENS, MAX_NUM_SEQS, Server

pytestmark = pytest.mark.slow

REQUESTS = 200
KV_BLOCKS = 40
USABLE_BLOCKS = KV_BLOCKS - 1
"""One of them is the engine's null block."""
BATCHED_TOKENS = 96
"""Less than most prompts have, so that they come in chunks."""
APART_S = 100.0
OVERLOAD_RUNS = 10
OVERLOAD_GAP_S = 0.05


def _wishes(count: int, seed: int) -> list[Wish]:
    """Prompts that go on from one of a few common ones, at any token; some come again as they were."""
    drawn = random.Random(seed)

    def words(length: int) -> tuple[str, ...]:
        return tuple(f"w{drawn.randrange(496)}" for _ in range(length))

    trunks = [words(300) for _ in range(6)]
    found: list[Wish] = []
    for number in range(count):
        if found and drawn.random() < 0.1:
            prompt = drawn.choice(found[-10:]).prompt
        else:
            prompt = drawn.choice(trunks)[: drawn.randrange(1, 300)] + words(drawn.randrange(0, 120))
        found.append(Wish(f"replay{seed}-{number}", prompt, drawn.randrange(1, 80)))
    return found


@dataclass
class Runs:
    """One engine's life: one at a time, then sixteen at a time, then the same overload ten times.

    Attributes:
        alone: One at a time.
        alone_usage: The pool's use after each of these, as the engine tells.
        together: Sixteen at a time.
        overload: The ten runs, each from an empty cache.
    """

    alone: list[Outcome]
    alone_usage: list[float]
    together: Played
    overload: list[Played]


@pytest.fixture(scope="module")
def runs(engine: Path, model: Path, agent_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("replay")
    rings = folder / "rings"
    rings.mkdir()
    environment = {
        "OOMCTL_RING": str(rings), "OOMCTL_TRACKED_REQUESTS": "0", "OOMCTL_RING_RECORDS": "131072",
        "PYTHONPATH": str(agent_site), "VLLM_SERVER_DEV_MODE": "1",
    }  # fmt: skip
    options = ("--enable-prompt-tokens-details", "--max-num-batched-tokens", str(BATCHED_TOKENS))
    with Server(engine, model, folder / "log", KV_BLOCKS, options, environment) as server:
        alone, usage = [], []
        for wish in _wishes(REQUESTS, seed=4):
            alone.append(load.ask(server.port, wish))
            usage.append(server.metrics()["vllm:kv_cache_usage_perc"])
        _forget_all(server)
        together = load.run(server.port, _wishes(REQUESTS, seed=5), concurrency=MAX_NUM_SEQS)
        overload = []
        for number in range(OVERLOAD_RUNS):
            _forget_all(server)
            wishes = [Wish(f"{number}x{each.name}", each.prompt, each.output_tokens) for each in _wishes(40, seed=6)]
            overload.append(load.run(server.port, wishes, concurrency=len(wishes), gap_s=OVERLOAD_GAP_S))
        recording = Recording.read(rings, final=False)
    assert set(recording.losses().values()) == {0}
    assert {each.state for one in (alone, together, *overload) for each in one} == {"finished"}
    yield Runs(alone, usage, played(recording, together), [played(recording, each) for each in overload])


def _forget_all(server: Server) -> None:
    """Empty the prefix cache."""
    request = urllib.request.Request(f"{server.url}/reset_prefix_cache", method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer) == {"success": True}


def test_one_at_a_time_the_same_tokens_are_found(runs: Runs) -> None:
    work = as_work(runs.alone, [APART_S * number for number in range(REQUESTS)])
    replayed = Engine(work, Machine(USABLE_BLOCKS, BLOCK_TOKENS), Gate(None))
    run = replayed.play()
    assert [each.hit_tokens for each in run.outcomes] == [each.cached_tokens or 0 for each in runs.alone]
    assert run.evicted_blocks > 0 and len({each.hit_tokens for each in run.outcomes}) > 4, "or it would prove little"
    assert set(runs.alone_usage) == {0.0} and replayed.pool.held_blocks == 0, "a quiet engine holds nothing"


def _is_equal(engine: Played) -> None:
    """Request by request, and step by step."""
    run, held = by_steps(engine, USABLE_BLOCKS, MAX_NUM_SEQS, BATCHED_TOKENS)
    assert held == engine.used_blocks
    assert [each.hit_tokens for each in run.outcomes] == [each.hit_tokens for each in engine.requests]
    assert [each.preemptions for each in run.outcomes] == [each.preemptions for each in engine.requests]
    assert sum(each.recomputed_tokens for each in run.outcomes) == engine.recomputed_tokens


def test_together_the_same_tokens_are_found_and_the_same_blocks_held_after_every_step(runs: Runs) -> None:
    together = runs.together
    assert [each.hit_tokens for each in together.requests] == [
        each.outcome.cached_tokens or 0 for each in together.requests
    ]
    assert sum(each.preemptions for each in together.requests) > 10, "or it would prove little"
    assert len(together.used_blocks) > 500 and max(together.used_blocks.values()) == USABLE_BLOCKS
    _is_equal(together)


def test_under_overload_every_run_is_replayed_preemption_by_preemption(runs: Runs) -> None:
    for each in runs.overload:
        _is_equal(each)


def test_under_overload_a_replay_by_the_clock_preempts_as_often_as_the_engine(runs: Runs) -> None:
    counts = [sum(each.preemptions for each in run.requests) for run in runs.overload]
    # Of the engine nothing is known but its mean speed, of the requests when they were sent.
    decode_s = mean(median(run.decode_s) for run in runs.overload)
    prompts = [one for run in runs.overload for one in run.prompt_s]
    rate = sum(tokens for tokens, _ in prompts) / sum(max(0.0, seconds - decode_s) for _, seconds in prompts)
    sent = sorted((each.outcome for each in runs.overload[0].requests), key=lambda each: int(each.wish.name.split("-")[1]))
    work = as_work(sent, [OVERLOAD_GAP_S * number for number in range(len(sent))])
    machine = Machine(USABLE_BLOCKS, BLOCK_TOKENS, MAX_NUM_SEQS, BATCHED_TOKENS, rate, decode_s)
    found = sum(each.preemptions for each in Engine(work, machine, Gate(None)).play().outcomes)
    print(f"preemptions: engine {sorted(counts)}, replay {found}; {rate:.0f} tokens/s, {decode_s * 1e3:.1f} ms a step")
    assert min(counts) > 0 and min(counts) <= found <= max(counts)
