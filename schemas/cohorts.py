"""What `oomctl capacity cohorts` says of a trace, declared once. None is "not told by the trace", never 0."""

import msgspec

SCHEMA = "oomctl.cohorts/0"


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How some values are spread. Quantiles are linear between neighbours (type 7), by weight where a trace is a sample."""

    count: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Arrivals in windows of one length."""

    seconds: int
    dispersion: float
    """Variance of the counts over their mean; 1 of a Poisson process."""
    peak_to_mean: float


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """How requests come."""

    rate_per_s: float | None = None
    gap_cv: float | None = None
    """Standard deviation of the gaps over their mean; 1 of a Poisson process."""
    windows: list[Window] = []
    reason: str = ""
    """Why something is not told."""


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """What is alive at once, by share of time."""

    quality: str
    """measured: the trace tells how long requests took; simulated: infinitely many servers of a given speed."""
    requests: Spread
    reserved_tokens: Spread
    """Prompt and output, rounded up to blocks, from arrival to end."""
    physical_tokens: Spread | None = None
    """The same, where a block that several requests hold is counted once."""


class Prefix(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts' blocks that requests before had too. Ratios of sums, not means of ratios."""

    block_ratio: float | None = None
    """Of blocks, in a cache without bound."""
    token_ratio: float | None = None
    """Of prompt tokens, in a cache without bound."""
    engine_ratio: float | None = None
    """The same as an engine counts: whole blocks only, one token is always computed."""
    measured_ratio: float | None = None
    """As the engine itself reported cached tokens."""
    lru_ratio: dict[int, float] = {}
    """Of prompt tokens, by the size of a cache in blocks of the trace; empty where sessions have no common clock."""
    logical_tokens: int
    """Of all prompts."""
    physical_tokens: int | None = None
    """Of distinct blocks: what a cache without bound would hold."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Of which parts prompts consist, in tokens of all of them together."""

    system_tokens: int | None = None
    tool_schema_tokens: int | None = None
    history_tokens: int | None = None
    retrieved_tokens: int | None = None
    other_tokens: int
    """What is none of the known parts."""


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """Hits that a change in front of the conversation loses."""

    reused_tokens: Spread
    """Of a turn: what it computes anew when the tool schema in front of it was revised since the turn before."""
    sessions: int
    """Each pays once for a revision while it lives."""
    broken_turns: int
    """Turns that are not shorter than the one before and yet share less than half of it: a prefix that changed."""
    lost_tokens: int
    """Of those: tokens of the turn before that could not be reused."""


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """The prompts of all sessions' turns of one number."""

    turn: int
    requests: int
    prompt_tokens_p50: float


class Turns(msgspec.Struct, frozen=True, kw_only=True):
    """How the KV of a session grows."""

    sessions: int
    turns_p50: float
    growth_tokens: Spread
    """From one turn's prompt to the next, where it grows."""
    by_turn: list[Depth]
    compactions: int
    """Turns with a shorter prompt than the one before."""
    before_compaction_tokens_p50: float | None = None
    after_compaction_tokens_p50: float | None = None
    reused_after_compaction_ratio: float | None = None
    """Of the prompt after one."""


class Branches(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that leave the prompt of one before where that one went on otherwise."""

    requests: int
    shared_tokens: Spread
    suffix_tokens: Spread
    copied_blocks_at_most: int
    """One a branch: where it does not leave at the end of a block."""


class Long(msgspec.Struct, frozen=True, kw_only=True):
    """Pauses longer than some time."""

    seconds: int
    share_of_pauses: float
    share_of_token_seconds: float | None = None


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """What sessions wait for between turns."""

    kind: str
    seconds: Spread
    held_tokens: Spread
    """Prompt and output of the turn before."""
    token_seconds: float | None = None
    longer: list[Long] = []
    reusable_ratio: float | None = None
    """Of the next prompt."""


class Cohort(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that are alike by a rule."""

    name: str
    requests: int
    represents: float
    """How many requests these stand for, where the trace is a sample."""
    statuses: dict[str, int]
    prompt_tokens: Spread
    output_tokens: Spread
    arrivals: Arrivals
    concurrency: Concurrency | None = None
    prefix: Prefix | None = None
    parts: Parts
    revision: Revision | None = None
    turns: Turns | None = None
    branches: Branches | None = None
    pauses: list[Pauses] = []


class Trap(msgspec.Struct, frozen=True, kw_only=True):
    """A trap in the data."""

    code: str
    count: int
    text: str


class Cohorts(msgspec.Struct, kw_only=True):
    """A trace, whole and by cohort."""

    schema: str = SCHEMA
    trace: str
    format: str
    requests: int
    sessions: int
    start: str | None
    duration_s: float | None
    block_tokens: int | None
    findings: list[Trap]
    cohorts: list[Cohort]
    """The first is all of it."""
