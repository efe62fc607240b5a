"""What became of each job, and how full the pool was."""

from dataclasses import dataclass, field
from typing import Literal

from oomctl.analyzers.capacity.replay.workload import Job, Workload

Fate = Literal["", "finished", "rejected", "cancelled"]


@dataclass(slots=True)
class Outcome:
    """What became of one job; NaN and 0 where it did not come so far.

    Attributes:
        arrival_s, admitted_s, first_token_s, end_s: On the replay's clock.
        queued: Whether the policy let it wait.
        hit_tokens: Prompt tokens found in the cache when it was first scheduled.
        computed_tokens: Tokens computed for it in prefills, those computed again included.
        recomputed_tokens: Of these, computed again after a preemption.
        preemptions: How often the engine took its blocks away.
    """

    arrival_s: float = float("nan")
    admitted_s: float = float("nan")
    first_token_s: float = float("nan")
    end_s: float = float("nan")
    fate: Fate = ""
    queued: bool = False
    hit_tokens: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    preemptions: int = 0


class Usage:
    """Blocks in use over time: peak, and mean weighted by time."""

    def __init__(self) -> None:
        self.peak_blocks = 0
        self.over_s = 0.0
        self.elapsed_s = 0.0
        self._area = 0.0

    def hold(self, blocks: int, seconds: float, limit_blocks: int | None = None) -> None:
        """So many blocks were in use for so long."""
        if blocks > self.peak_blocks:
            self.peak_blocks = blocks
        self._area += blocks * seconds
        self.elapsed_s += seconds
        if limit_blocks is not None and blocks > limit_blocks:
            self.over_s += seconds

    @property
    def mean_blocks(self) -> float:
        """Weighted by time."""
        return self._area / self.elapsed_s if self.elapsed_s else 0.0


@dataclass(slots=True)
class Run:
    """A whole replay.

    Attributes:
        policy: Its name.
        total_blocks: Of the pool.
        outcomes: One per job, in the order of the workload.
        jobs: The workload's.
        usage: Of blocks in use by requests, a shared one once; the cache that nobody holds is not in use.
        peak_need_blocks: At fixed speeds: the most that those running at once hold at their ends, all taken together.
        evicted_blocks: Cached blocks that were taken for others.
        copied_blocks: Partly filled blocks of prompts that a branch copied on its first write.
        reasons: Rejections by reason.
        waiting_peak: The longest queue, before the engine and in it.
    """

    policy: str
    total_blocks: int
    block_tokens: int
    jobs: list[Job]
    outcomes: list[Outcome]
    usage: Usage = field(default_factory=Usage)
    peak_need_blocks: int = 0
    evicted_blocks: int = 0
    copied_blocks: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    waiting_peak: int = 0

    @classmethod
    def of(cls, workload: Workload, policy: str, total_blocks: int, block_tokens: int) -> "Run":
        """Nothing has happened yet."""
        return cls(policy, total_blocks, block_tokens, workload.jobs, [Outcome() for _ in workload.jobs])
