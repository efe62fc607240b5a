"""What an engine is, and what it keeps of a request that it works on."""

from dataclasses import dataclass
from typing import Literal

from oomctl.analyzers.capacity.replay.workload import Job


@dataclass(frozen=True, slots=True)
class Machine:
    """An engine's limits and its speed.

    A step takes prompt tokens / prefill_tokens_per_s, and tpot_s on top if any request decodes in it.

    Attributes:
        total_blocks, block_tokens: The pool.
        max_num_seqs, max_num_batched_tokens: As vLLM names them: sequences that run, tokens per step.
        prefix_caching: Whether blocks of ended requests stay cached.
        waiting_limit: Requests that may wait in the engine; None: any number.
        tool_waits: What becomes of a context while its session waits for a tool: recompute leaves it to the cache.
        bytes_per_token, link_bytes_per_s: Of contexts that go to the host.
    """

    total_blocks: int
    block_tokens: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    prefill_tokens_per_s: float = 8000.0
    tpot_s: float = 0.03
    prefix_caching: bool = True
    waiting_limit: int | None = None
    tool_waits: Literal["recompute", "preserve", "offload"] = "recompute"
    bytes_per_token: int = 131_072
    link_bytes_per_s: float = 25e9


class Live:
    """A job in the engine.

    Attributes:
        goal_tokens: To be computed before it decodes: its prompt, and what it had generated when it was preempted.
        computed_tokens: Of these.
        generated: Tokens generated when its present decoding began.
        begun_step: The decode step at which it began; -1 while it does not decode.
        blocks: Taken and without a name.
        extents: Named ones that it holds, its first so many.
        life: Counts its preemptions, so that events of an earlier life are told from those of this one.
    """

    __slots__ = ("begun_step", "blocks", "computed_tokens", "extents", "generated", "goal_tokens", "job", "life", "order")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.goal_tokens = job.prompt_tokens
        self.computed_tokens = self.generated = self.blocks = self.extents = self.life = 0
        self.begun_step = -1
        self.order = 0
