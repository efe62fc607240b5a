"""What became of a replay's requests, whole and by cohort."""

from collections.abc import Iterable, Sequence

import numpy as np

from oomctl.analyzers.capacity.replay.outcome import Outcome, Run
from oomctl.analyzers.capacity.replay.workload import Job
from oomctl.analyzers.capacity.spread import spread
from oomctl.schemas.cohorts import Spread
from oomctl.schemas.replay import CohortReplay, Pool, Replay, Slo

ALL = "all"
Entry = tuple[Job, Outcome]


def is_good(job: Job, outcome: Outcome, slo: Slo) -> bool:
    """Whether a request was answered within the SLO."""
    if outcome.fate != "finished" or outcome.first_token_s - outcome.arrival_s > slo.ttft_s:
        return False
    return job.output_tokens < 2 or _tpot_s((job, outcome)) <= slo.tpot_s


def good_share(run: Run, slo: Slo) -> float:
    """Of all requests."""
    good = sum(is_good(job, outcome, slo) for job, outcome in zip(run.jobs, run.outcomes, strict=True))
    return good / len(run.jobs)


def report(run: Run, trace: str, compute: str, slo: Slo) -> Replay:
    """Sum up a replay.

    Args:
        run: What `play` returned.
        trace: What to call the trace.
        compute: As the plan has it.
        slo: What a good answer is.
    """
    entries = list(zip(run.jobs, run.outcomes, strict=True))
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry[0].cohort, []).append(entry)
    cohorts = [_cohort(ALL, entries, slo)]
    if groups.keys() != {ALL}:
        cohorts += [_cohort(name, groups[name], slo) for name in sorted(groups)]
    elapsed_s = run.usage.elapsed_s
    return Replay(
        trace=trace,
        policy=run.policy,
        compute=compute,
        elapsed_s=elapsed_s,
        goodput_per_s=cohorts[0].good / elapsed_s if elapsed_s else 0.0,
        slo=slo,
        waiting_peak=run.waiting_peak,
        rejections=dict(sorted(run.reasons.items())),
        pool=Pool(
            total_blocks=run.total_blocks,
            block_tokens=run.block_tokens,
            peak_blocks=run.usage.peak_blocks,
            mean_blocks=run.usage.mean_blocks,
            over_s=run.usage.over_s,
            peak_need_blocks=run.peak_need_blocks or None,
            evicted_blocks=run.evicted_blocks,
            copied_blocks=run.copied_blocks,
        ),
        cohorts=cohorts,
    )


def _cohort(name: str, entries: Sequence[Entry], slo: Slo) -> CohortReplay:
    outcomes = [outcome for _, outcome in entries]
    admitted = [each for each in outcomes if each.admitted_s == each.admitted_s]
    answered = [(job, each) for job, each in entries if each.first_token_s == each.first_token_s]
    ended = [(job, each) for job, each in entries if each.fate == "finished" and job.output_tokens > 1]
    return CohortReplay(
        name=name,
        requests=len(entries),
        at_once=sum(not each.queued for each in admitted),
        queued=sum(each.queued for each in outcomes),
        rejected=sum(each.fate == "rejected" for each in outcomes),
        cancelled=sum(each.fate == "cancelled" for each in outcomes),
        finished=sum(each.fate == "finished" for each in outcomes),
        wait_s=_spread(each.admitted_s - each.arrival_s for each in admitted),
        ttft_s=_spread(each.first_token_s - each.arrival_s for _, each in answered),
        tpot_s=_spread(map(_tpot_s, ended)),
        preempted=sum(each.preemptions > 0 for each in outcomes),
        preemptions=sum(each.preemptions for each in outcomes),
        prompt_tokens=sum(job.prompt_tokens for job, _ in answered),
        hit_tokens=sum(each.hit_tokens for _, each in answered),
        computed_tokens=sum(each.computed_tokens for each in outcomes),
        recomputed_tokens=sum(each.recomputed_tokens for each in outcomes),
        good=sum(is_good(job, each, slo) for job, each in entries),
    )


def _tpot_s(entry: Entry) -> float:
    job, outcome = entry
    return (outcome.end_s - outcome.first_token_s) / (job.output_tokens - 1)


def _spread(values: Iterable[float]) -> Spread:
    # Times are differences of sums: below a nanosecond there is rounding only.
    return spread(np.round(np.fromiter(values, dtype=np.float64), 9))
