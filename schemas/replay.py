"""What `oomctl capacity replay` and `oomctl capacity limit` say, declared once. All of it is simulated. None: not known."""

import msgspec

from oomctl.schemas.cohorts import Spread

SCHEMA = "oomctl.replay/0"


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """When an answer is good enough: both bounds kept, and the request neither rejected nor given up."""

    ttft_s: float
    """From arrival to the first token, waiting included."""
    tpot_s: float
    """Mean time of a further token."""


class CohortReplay(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the requests of a cohort."""

    name: str
    requests: int
    at_once: int
    """Admitted when they came."""
    queued: int
    """Had to wait for the policy, whatever became of them."""
    rejected: int
    cancelled: int
    finished: int
    wait_s: Spread
    """From arrival to admission, of those admitted."""
    ttft_s: Spread
    tpot_s: Spread
    preempted: int
    preemptions: int
    prompt_tokens: int
    hit_tokens: int
    """Prompt tokens found in the cache at the first scheduling."""
    computed_tokens: int
    recomputed_tokens: int
    good: int
    """Within the SLO."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks over time."""

    total_blocks: int
    block_tokens: int
    peak_blocks: int
    """Held by requests, a shared one once."""
    mean_blocks: float
    """Weighted by time."""
    over_s: float
    """Time in which more was held than there is; only where nothing preempts."""
    peak_need_blocks: int | None
    """The ends of all that run at once, taken together; only at fixed speeds."""
    evicted_blocks: int
    copied_blocks: int


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, replayed."""

    schema: str = SCHEMA
    trace: str
    policy: str
    compute: str
    quality: str = "simulated"
    elapsed_s: float
    goodput_per_s: float
    slo: Slo
    waiting_peak: int
    rejections: dict[str, int]
    pool: Pool
    cohorts: list[CohortReplay]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a search."""

    value: float
    good_share: float
    preemptions: int


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate, or the smallest pool, that keeps an SLO for a share of the requests."""

    schema: str = "oomctl.limit/0"
    trace: str
    policy: str
    quality: str = "simulated"
    searched: str
    """rate: requests per second; blocks: of the pool."""
    slo: Slo
    share: float
    value: float | None
    """None: nothing that was tried keeps it."""
    speedup: float | None
    """Of the trace, at that rate."""
    breaks_first: str | None
    """memory: just beyond the limit a pool without end keeps the SLO; slo: it does not either."""
    beyond: Probe | None
    """The nearest try that breaks it."""
    tries: list[Probe]
