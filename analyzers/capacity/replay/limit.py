"""The highest rate, or the smallest pool, that keeps an SLO; and what gives way first, the pool or the machine."""

from dataclasses import replace
from typing import Literal

from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.policies import Plan, play
from oomctl.analyzers.capacity.replay.report import good_share
from oomctl.analyzers.capacity.replay.workload import Options, Workload
from oomctl.analyzers.capacity.search import search as bisect
from oomctl.schemas.replay import Limit, Probe, Slo
from oomctl.schemas.trace import Trace

ENDLESS_BLOCKS = 2**40


class _Search:
    """Plays the trace at one point, and remembers what it found."""

    def __init__(self, trace: Trace, options: Options, plan: Plan, slo: Slo) -> None:
        self._trace, self._options, self._plan, self._slo = trace, options, plan, slo
        self.tries: dict[float, Probe] = {}

    def run(self, speedup: float, blocks: int) -> Run:
        workload = Workload(self._trace, replace(self._options, speedup=speedup))
        return play(workload, replace(self._plan, machine=replace(self._plan.machine, total_blocks=blocks)))

    def probe(self, value: float, speedup: float, blocks: int) -> Probe:
        if value not in self.tries:
            run = self.run(speedup, blocks)
            preemptions = sum(each.preemptions for each in run.outcomes)
            self.tries[value] = Probe(value=value, good_share=good_share(run, self._slo), preemptions=preemptions)
        return self.tries[value]


def limit(
    trace: Trace,
    options: Options,
    plan: Plan,
    slo: Slo,
    share: float,
    searched: Literal["rate", "blocks"],
    precision: float = 0.02,
) -> Limit:
    """Search by bisection, on a scale of ratios.

    A larger pool or a lower rate is taken to be never worse, which holds but for a few requests.

    Args:
        trace: What comes; a rate is that of its own arrivals, faster or slower.
        options: How it is played; its speed-up is where the search begins.
        plan: What it comes to; its pool is where a search for blocks begins.
        slo: When an answer is good.
        share: Of the requests that must be.
        searched: What to search.
        precision: Of the answer, as a ratio.
    """
    search = _Search(trace, options, plan, slo)
    rate = _rate(trace, options)
    blocks = plan.machine.total_blocks

    def good(scale: float) -> bool:
        """Whether it holds at a scale: above 1 is easier, a lower rate or more blocks."""
        if searched == "rate":
            probe = search.probe(rate / scale, options.speedup / scale, blocks)
        else:
            probe = search.probe(max(1, round(blocks * scale)), options.speedup, max(1, round(blocks * scale)))
        return probe.good_share >= share

    low, high = bisect(good, precision)
    breaks = None
    if low is not None:
        speedup = options.speedup / low if searched == "rate" else options.speedup
        breaks = "memory" if good_share(search.run(speedup, ENDLESS_BLOCKS), slo) >= share else "slo"

    def value(scale: float) -> float:
        return rate / scale if searched == "rate" else float(max(1, round(blocks * scale)))

    return Limit(
        trace=trace.name,
        policy=plan.policy,
        searched=searched,
        slo=slo,
        share=share,
        value=None if high is None else value(high),
        speedup=None if high is None or searched != "rate" else options.speedup / high,
        breaks_first=breaks,
        beyond=None if low is None else search.tries[value(low)],
        tries=sorted(search.tries.values(), key=lambda each: each.value),
    )


def _rate(trace: Trace, options: Options) -> float:
    """Requests per second as they are played; of sessions, their begins."""
    workload = Workload(trace, options)
    begins = [job.arrival_s for job in workload.jobs if job.arrival_s < float("inf")]
    span_s = max(begins) - min(begins)
    return len(begins) / span_s if span_s else float(len(begins))
