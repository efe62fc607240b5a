"""What `oomctl capacity experiment` leaves beside a ledger, declared once. None is "not observed", never 0."""

from typing import Literal

import msgspec

from oomctl.schemas.cohorts import Spread
from oomctl.schemas.replay import Slo

SCHEMA = "oomctl.experiment/0"

Status = Literal["passed", "failed", "skipped", "aborted"]
"""failed: it was tried, and what it is to show does not hold; aborted: a guard, a death or a person ended it."""
Breaks = Literal["slo", "kv_blocks", "device", "host", "errors"]
"""What gives way: the SLO, free KV blocks, free device memory, free host memory, or answers."""

Term = Literal["ttft", "tpot"]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of the recording while a step ran; (stream, first_seq) and (stream, last_seq) are rows of it."""

    figure: str
    """Kind and field of the event table, such as kv_pool.free_blocks."""
    whose: str = ""
    """Rank, device or process, where the rows tell."""
    readings: int
    first: float
    last: float
    least: float
    most: float
    stream: str
    first_seq: int
    last_seq: int


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """Some seconds of load at one rate."""

    load: str
    """What was sent: short, mixed, hits, misses, sessions, warm-up."""
    rate_per_s: float
    """Asked for; arrivals do not wait for answers."""
    sent_late_s: float
    """By how much the client was late at worst; where that is not small beside the SLO, the client was the limit."""
    elapsed_s: float
    requests: int
    good: int
    """Finished within the SLO."""
    failed: int
    cancelled: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    """Of the prompts, found in the prefix cache, by the engine's counters."""
    ttft_s: Spread
    """From the moment at which a request was due to its first token."""
    tpot_s: Spread
    preemptions: int | None = None
    least_free_blocks: int | None = None
    least_device_free_bytes: int | None = None
    least_host_free_bytes: int | None = None
    most_running: int | None = None
    most_waiting: int | None = None
    broke: Breaks | None = None
    """What gave way first; None: the rate was kept."""
    term: Term | None = None
    """Of the SLO, where it broke: which term was missed mostly."""
    broke_s: float | None = None
    """Seconds from its beginning."""
    reason: str = ""
    stopped_in_s: float | None = None
    """From the guard's word to the last open connection, where a guard ended it."""


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """How a figure of memory went over a time of steady load, as `leak_slope` has it, and what that is per request."""

    figure: str
    whose: str
    points: int
    slope_bytes_per_s: float
    low_bytes_per_s: float | None
    high_bytes_per_s: float | None
    """Ends of the 95% interval; None where too few readings are independent."""
    slope_bytes_per_request: float
    low_bytes_per_request: float | None
    high_bytes_per_request: float | None
    grows: bool | None
    """Whether it grew by what cannot be chance, by more than some pages, and in each half of the time."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ten steps, and its evidence."""

    number: int
    name: str
    status: Status
    reason: str = ""
    began_us: int
    ended_us: int
    recordings: list[str] = []
    """Folders of the flight recorder's that hold its rows, within the experiment's folder."""
    figures: dict[str, float | int | str | None] = {}
    tries: list[Try] = []
    leaks: list[Leak] = []
    evidence: list[Reading] = []


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What to change first for a higher rate."""

    setting: str | None
    """As it is typed; None: no setting of the engine does it."""
    present: str | None
    change: Literal["raise", "lower"] | None
    to: int | None
    """The value, where what was measured gives one."""
    why: str


class OperatingPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate that was kept, and what gives way beyond it."""

    rate_per_s: float
    broken_rate_per_s: float | None
    """The lowest rate that was not kept; None: none was found."""
    breaks_first: Breaks | None
    margin_blocks: int | None
    """Fewest free KV blocks at the operating point."""
    margin_device_bytes: int | None = None
    """Least free memory of the device there."""
    margin_host_bytes: int | None = None
    advice: Advice | None = None
    """None where nothing gave way."""
    share: float
    """Of the requests that had to be good."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What admission takes of it: arguments of `oomctl.analyzers.capacity.admission.State`, and the rate."""

    total_blocks: int | None = None
    block_tokens: int | None = None
    safety_blocks: int | None = None
    queue_limit: int | None = None
    """Requests that waited at most at the operating point."""
    prefill_tokens_per_s: float | None = None
    tpot_s: float | None = None
    rate_per_s: float | None = None


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of the worker that triage told of."""

    step: int
    summary: str
    verdict: str | None
    oom_class: str | None
    resource: str | None
    report: str | None
    """The page, within the experiment's folder."""


class Experiment(msgspec.Struct, kw_only=True):
    """The artifact, and while it runs the state from which it goes on."""

    schema: str = SCHEMA
    asked: dict[str, str | float | int | bool | None]
    """The options that decide what is measured: another experiment's folder is not gone on with."""
    model: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    arguments: dict[str, str] = {}
    """Of the engine, as the recording has them."""
    ledger: str | None = None
    """File beside this one: the prediction that the KV pool was held against."""
    slo: Slo
    share: float
    complete: bool = False
    steps: list[Step] = []
    point: OperatingPoint | None = None
    limits: Limits | None = None
    incidents: list[Incident] = []

    def step(self, number: int) -> Step | None:
        """The outcome of a step; None if it did not run to an end."""
        return next((step for step in self.steps if step.number == number), None)
