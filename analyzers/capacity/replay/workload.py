"""A trace as jobs: what comes when, how long it is, and what follows it in its session."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from random import Random

from oomctl.analyzers.capacity.admission.request import ANYONE, Request, Scope
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.trace import Ids, Trace


@dataclass(slots=True)
class Job:
    """One request of a trace.

    Attributes:
        index, row: Its place in the workload, and in the trace.
        arrival_s: When it comes; inf while the turn before it has not ended.
        prompt_tokens, output_tokens: As in the trace; at least 1 each.
        request: As the admission rule sees it; its prefix is there between `begin` and `end`, since tens of millions of
            hashes have no room for an object each.
        ids: Block ids of the prompt, or None.
        cohort: Label.
        next_turn: Index of the turn that follows it in its session, if it is played after it.
        pause_s, waits_for_tool: Before this turn, since the end of the turn before.
        cancel_after_s: Since its arrival; inf where nobody gives up.
    """

    index: int
    row: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    request: Request
    ids: Ids | None
    cohort: str
    next_turn: int | None = None
    pause_s: float = 0.0
    waits_for_tool: bool = False
    cancel_after_s: float = inf

    def begin(self) -> None:
        """It comes: its prefix is needed from now on."""
        if self.ids is not None:
            self.request = replace(self.request, prefix=self.ids.tolist())

    def end(self) -> None:
        """It is over."""
        if self.ids is not None:
            self.request = replace(self.request, prefix=())


@dataclass(frozen=True, slots=True)
class Options:
    """How a trace is played.

    Attributes:
        speedup: Arrivals come so many times as fast.
        max_output_tokens: Allowed output where the trace does not tell; None: the longest of the trace.
        branches: Sequences per request.
        session_gap_s: Where each session has its own clock: one begins every so many seconds.
        cancel_ratio, cancel_after_s: A share of the requests is given up after so long, drawn by `seed`.
        seed: Of what is drawn.
    """

    speedup: float = 1.0
    max_output_tokens: int | None = None
    branches: int = 1
    session_gap_s: float = 30.0
    cancel_ratio: float = 0.0
    cancel_after_s: float = 10.0
    seed: int = 0


class Workload:
    """The jobs of a trace, in the order of its rows.

    Args:
        trace: Requests that failed or were rejected when it was recorded are left out: nothing tells their outputs.
        options: How to play it.
        labels: Cohort per request; one for all if None.

    Raises:
        OomctlError: If it has no request that can be played.
    """

    def __init__(self, trace: Trace, options: Options | None = None, labels: Sequence[str] | None = None) -> None:
        chosen = options if options is not None else Options()
        self.name = trace.name
        self.hash_tokens = trace.prefixes.block_tokens if trace.prefixes is not None else None
        self.jobs = list(_jobs(trace, chosen, labels))
        if not self.jobs:
            raise OomctlError(f"no request to replay ({trace.name})", "a request needs a prompt and an output")
        if trace.clock == "session":
            _chain(self.jobs, trace, chosen)
        self.outputs = [job.output_tokens for job in self.jobs]

    def __len__(self) -> int:
        return len(self.jobs)


def _jobs(trace: Trace, options: Options, labels: Sequence[str] | None) -> Iterator[Job]:
    if options.speedup <= 0:
        raise OomctlError("the speed-up is a factor above 0", "2 plays a trace twice as fast", ExitCode.USAGE)
    table = trace.requests
    longest = int(table["output_tokens"].max() or 1)  # type: ignore[arg-type]  # polars cannot know that they are integers
    drawn = Random(options.seed)
    columns = [table[name].to_list() for name in (
        "arrival_s", "prompt_tokens", "output_tokens", "max_output_tokens", "status", "tenant", "model", "adapter",
    )]  # fmt: skip
    kept = 0
    for row, (arrival_s, prompt, output, most, status, tenant, model, adapter) in enumerate(zip(*columns, strict=True)):
        cancelled = drawn.random() < options.cancel_ratio
        if status not in ("ok", "cancelled") or not prompt or not output:
            continue
        cohort = labels[row] if labels is not None else "all"
        scope = ANYONE if tenant is model is adapter is None else Scope(tenant or "", model or "", adapter=adapter or "")
        allowed = most or options.max_output_tokens or longest
        request = Request(str(kept), prompt, max(allowed, output), (), scope, options.branches, cohort, None, output)
        ids = trace.prefixes.of(row) if trace.prefixes is not None else None
        job = Job(kept, row, arrival_s / options.speedup, prompt, output, request, ids, cohort)
        if cancelled:
            job.cancel_after_s = options.cancel_after_s
        kept += 1
        yield job


def _chain(jobs: list[Job], trace: Trace, options: Options) -> None:
    """Each turn comes a pause after the end of the turn before, since an engine that is slower delays all that follows."""
    rows = [job.row for job in jobs]
    sessions = trace.requests["session"].gather(rows).to_list()
    pauses = trace.requests["pause_s"].gather(rows).to_list()
    kinds = trace.requests["pause"].gather(rows).to_list()
    begun = 0
    for place, (job, session) in enumerate(zip(jobs, sessions, strict=True)):
        if place and session is not None and session == sessions[place - 1]:
            jobs[place - 1].next_turn = place
            job.arrival_s, job.pause_s = inf, float(pauses[place] or 0.0)
            job.waits_for_tool = kinds[place] == "tool"
        else:
            job.arrival_s = begun * options.session_gap_s / options.speedup
            begun += 1
