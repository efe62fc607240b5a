"""The replay beside a real engine: the same requests, one at a time, find the same tokens in a cache that is too small."""

import hashlib
import random
from pathlib import Path

from oomctl.analyzers.capacity.replay.engine import Engine
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.machine import Machine
from tests.capacity.played import workload
from tests.engine.load import Wish, ask
from tests.engine.server import BLOCK_TOKENS, Server

REQUESTS = 200
KV_BLOCKS = 48
APART_S = 100.0
USABLE_BLOCKS = KV_BLOCKS - 1
"""One of them is the engine's null block."""


def _wishes() -> list[Wish]:
    """Prompts that go on from one of a few common ones, at any token; some come again as they were."""
    drawn = random.Random(4)

    def words(count: int) -> tuple[str, ...]:
        return tuple(f"w{drawn.randrange(496)}" for _ in range(count))

    trunks = [words(300) for _ in range(6)]
    found: list[Wish] = []
    for number in range(REQUESTS):
        if found and drawn.random() < 0.1:
            prompt = drawn.choice(found[-10:]).prompt
        else:
            prompt = drawn.choice(trunks)[: drawn.randrange(1, 300)] + words(drawn.randrange(0, 120))
        found.append(Wish(f"replay-{number}", prompt, drawn.randrange(1, 80)))
    return found


def _ids(prompts: list[list[int]]) -> list[list[int]]:
    """Chained ids of whole blocks."""
    numbers: dict[bytes, int] = {}
    found = []
    for tokens in prompts:
        whole = len(tokens) // BLOCK_TOKENS
        chain = [hashlib.sha256(repr(tokens[: (place + 1) * BLOCK_TOKENS]).encode()).digest() for place in range(whole)]
        found.append([numbers.setdefault(each, len(numbers)) for each in chain])
    return found


def test_prefix_hits_are_those_of_the_engine(engine: Path, model: Path, tmp_path: Path) -> None:
    wishes = _wishes()
    with Server(engine, model, tmp_path / "log", KV_BLOCKS, ("--enable-prompt-tokens-details",)) as server:
        outcomes, held = [], []
        for wish in wishes:
            outcomes.append(ask(server.port, wish))
            held.append(server.metrics()["vllm:kv_cache_usage_perc"])
    assert {each.state for each in outcomes} == {"finished"}
    # What the tokenizer puts before a prompt is the same in all of them.
    prefixes = [(each.prompt_tokens or 0) - len(wish.prompt) for each, wish in zip(outcomes, wishes, strict=True)]
    assert len(set(prefixes)) == 1
    tokens = [[-1] * prefixes[0] + [int(word[1:]) for word in wish.prompt] for wish in wishes]
    asked = [
        (APART_S * number, len(each), wish.output_tokens)
        for number, (each, wish) in enumerate(zip(tokens, wishes, strict=True))
    ]
    work = workload(asked, _ids(tokens), block_tokens=BLOCK_TOKENS)
    replayed = Engine(work, Machine(USABLE_BLOCKS, BLOCK_TOKENS), Gate(None))
    run = replayed.play()
    assert [each.hit_tokens for each in run.outcomes] == [each.cached_tokens or 0 for each in outcomes]
    assert run.evicted_blocks > 0 and len({each.hit_tokens for each in run.outcomes}) > 4, "or it would prove little"
    assert set(held) == {0.0} and replayed.pool.held_blocks == 0, "a quiet engine holds nothing"
