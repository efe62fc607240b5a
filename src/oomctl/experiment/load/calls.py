"""Requests that are planned ahead: when each is due, of how many tokens, and what it shares with others."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

IDS = bytes(range(16, 256))
"""Token ids that any vocabulary has, byte-level ones included; special tokens mostly stand below or above them."""


@dataclass(frozen=True)
class Call:
    """One request.

    Attributes:
        due_s: From the beginning of the try; open loop: whatever became of those before.
        prompt: Token ids, a byte each: half an hour of load is tens of millions of them.
        output_tokens: How many it asks for, and gets.
        then: The session's next turn, sent `pause_s` after this one ended; its `due_s` does not count.
        pause_s: How long the session's tool runs before that.
    """

    due_s: float
    prompt: bytes
    output_tokens: int
    then: "Call | None" = None
    pause_s: float = 0.0


@dataclass(frozen=True)
class Lengths:
    """Of prompts and outputs: pairs that are taken, each as often as the others.

    Attributes:
        name: What the load is called.
        pairs: (prompt tokens, output tokens).
    """

    name: str
    pairs: Sequence[tuple[int, int]] = field(repr=False)

    def mean_tokens(self) -> float:
        """Of prompt and output together."""
        return sum(prompt + output for prompt, output in self.pairs) / len(self.pairs)

    def within(self, most_tokens: int) -> "Lengths":
        """The same, cut to what the model takes: the prompt first."""
        return Lengths(self.name, [_cut(prompt, output, most_tokens) for prompt, output in self.pairs])


def plan(
    lengths: Lengths,
    rate_per_s: float,
    seconds: float,
    seed: int,
    content: int = 0,
    shared_tokens: int = 0,
    change: Callable[[Call, random.Random], Call] | None = None,
) -> list[Call]:
    """Requests of a Poisson process; the same for the same seed and content.

    Their number is that of the rate, and their lengths are spread evenly over those there are, so that two seeds ask the
    same of a worker; only places and order are drawn.

    Args:
        lengths: What is taken.
        rate_per_s: Mean arrivals.
        seconds: From the first to the last.
        seed: Of arrivals and lengths.
        content: Of the tokens, beside the seed: the same load with another content is found in no prefix cache.
        shared_tokens: Of each prompt, the same for all; the rest is its own.
        change: Makes a call another one, such as a session.
    """
    rng, inside = random.Random(seed), random.Random(f"{seed} {content}")
    shared = tokens(inside, shared_tokens)
    count = max(1, round(rate_per_s * seconds))
    dues = sorted(rng.random() * seconds for _ in range(count))
    ordered = sorted(lengths.pairs, key=sum)
    spread = [ordered[int((place + 0.5) / count * len(ordered))] for place in range(count)]
    rng.shuffle(spread)
    calls = []
    for due_s, (prompt, output) in zip(dues, spread, strict=True):
        own = max(prompt - len(shared), 1)
        call = Call(due_s, shared[: prompt - 1] + tokens(inside, own), output)
        calls.append(call if change is None else change(call, inside))
    return calls


def tokens(rng: random.Random, count: int) -> bytes:
    """So many token ids, drawn."""
    return bytes(rng.choices(IDS, k=count))


def turns(call: Call) -> Iterator[Call]:
    """A call and those that follow it."""
    turn: Call | None = call
    while turn is not None:
        yield turn
        turn = turn.then


def _cut(prompt: int, output: int, most_tokens: int) -> tuple[int, int]:
    output = max(1, min(output, most_tokens - 1))
    return max(1, min(prompt, most_tokens - output)), output
