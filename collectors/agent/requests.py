"""The requests that are followed: which, with what weight, and the blocks that each holds."""

import math
import random
from dataclasses import dataclass, field
from typing import Any

from oomctl.collectors.agent.kinds import REQUEST, SAMPLED_BY
from oomctl.collectors.agent.layout import NULL_I32, pack_texts
from oomctl.collectors.agent.ring import Ring

_SAMPLED = {name: code for code, name in enumerate(SAMPLED_BY)}


@dataclass(slots=True)
class Followed:
    """One request that is followed.

    Attributes:
        request: The engine's own object.
        tail: Its id and adapter, packed once.
        weight: How many requests it stands for.
        sampled_by: Why it is followed.
        blocks: KV blocks it holds.
        awaits_token: No output token was seen yet.
        due_step: When it is looked at again (`BlockTables`).
    """

    request: Any
    tail: bytes
    weight: float
    sampled_by: int
    blocks: int = 0
    awaits_token: bool = True
    due_step: int = 0
    prompt_tokens: int = field(init=False)
    max_output_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.read_lengths()

    def read_lengths(self) -> None:
        """What the client asked for, also when more of its prompt came."""
        self.prompt_tokens = _count(getattr(self.request, "num_prompt_tokens", None))
        self.max_output_tokens = _count(getattr(self.request, "max_tokens", None))

    def write(
        self, ring: Ring, event: int, step_id: int, delta: int = 0, cached: int = NULL_I32, scheduled: int = NULL_I32
    ) -> None:
        """Record an event of it at once, after `delta` more (or fewer) blocks."""
        request = self.request
        self.blocks += delta
        ring.write(
            REQUEST, self.tail, event, self.sampled_by, self.weight, step_id, self.prompt_tokens, cached,
            self.max_output_tokens, scheduled, request.num_computed_tokens, request.num_output_tokens, self.blocks, delta,
        )  # fmt: skip


class Sampler:
    """Draws which requests are followed, so that about `target` of them are at any time.

    The chance of a request is fixed before it arrives, so its weight (one over the chance) makes sums and quantiles over
    the followed ones unbiased. Drawn is how many are passed over until the next that is followed, all with the chance that
    holds then: the same as a draw for each, but without one for each.

    Args:
        target: About how many at a time; 0 for all.
        seed: For tests; random if None.

    Attributes:
        target: As given.
        passing: How many more are passed over, while there are more than the target.
    """

    def __init__(self, target: int, seed: int | None = None) -> None:
        self.target = target
        self._random = random.Random(seed)
        self._weight = 1.0
        self.passing = 0

    def draw(self, request: Any, alive: int) -> Followed | None:
        """Follow it, or not.

        Args:
            request: The engine's object.
            alive: Requests in the engine, this one too.
        """
        if self.target == 0 or alive <= self.target:
            return follow(request, "all")
        if self.passing:
            self.passing -= 1
            return None
        drawn = follow(request, "sample", self._weight)
        self._weight = alive / self.target
        self.passing = int(math.log(1 - self._random.random()) / math.log(1 - 1 / self._weight))
        return drawn


def follow(request: Any, sampled_by: str, weight: float = 1.0) -> Followed:
    """A request to be followed; one token from it on counts as not its first if it has any yet."""
    adapter = getattr(getattr(request, "lora_request", None), "lora_name", None)
    followed = Followed(request, pack_texts(str(request.request_id), adapter), weight, _SAMPLED[sampled_by])
    followed.awaits_token = request.num_output_tokens == 0
    return followed


def count_blocks(groups: Any) -> int:
    """Blocks in a block table: a tuple with a list for each KV cache group, or None."""
    return sum(map(len, groups)) if groups else 0


def _count(value: Any) -> int:
    # What a client asked for, so of any size.
    return value if isinstance(value, int) and 0 <= value < 2**31 else NULL_I32
