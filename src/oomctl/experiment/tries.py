"""One try: load of one kind at one rate, and what gave way."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oomctl.analyzers.capacity.experiment.breaks import Break, Floors, first_break, is_good
from oomctl.analyzers.capacity.experiment.observed import Answer, Look
from oomctl.analyzers.capacity.spread import spread
from oomctl.experiment.life import Life
from oomctl.experiment.load.aiperf import Aiperf, Cancel
from oomctl.experiment.load.calls import Call, turns
from oomctl.schemas.cohorts import Spread
from oomctl.schemas.experiment import Try
from oomctl.schemas.replay import Slo

LEAST_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Terms:
    """By what a try is judged.

    Attributes:
        slo: When an answer is good.
        share: Of the requests that must be.
        floors: What has to stay.
    """

    slo: Slo
    share: float
    floors: Floors


def attempt(
    life: Life,
    load: Aiperf,
    name: str,
    rate_per_s: float,
    calls: Sequence[Call],
    terms: Terms,
    cancel: Cancel | None = None,
) -> tuple[Try, list[int]]:
    """Send calls to a worker that has nothing else to do, and say what gave way.

    Args:
        life: The worker.
        load: Who sends.
        name: What the load is called.
        rate_per_s: What it was planned for.
        calls: In order of time.
        terms: By what it is judged.
        cancel: Who hangs up.

    Returns:
        The try, and when its requests ended, microseconds since 1970.
    """
    life.quiet()
    watch = life.watch
    watch.begin()
    before = watch.look()
    longest = max(turn.output_tokens for call in calls for turn in turns(call))
    # Who waits longer than twice what is good is told from who is late already.
    patience_s = max(LEAST_PATIENCE_S, 2 * (terms.slo.ttft_s + terms.slo.tpot_s * longest))
    sent = load.run(calls, patience_s, watch.stop, watch.seen, cancel)
    ended_s = time.monotonic()
    tripped, stopped_in_s = watch.tripped, None
    if tripped is not None:
        stopped_in_s = ended_s - (watch.begun_s + tripped.s)
    watch.look()
    shift_s = watch.begun_s - sent.begun_s if sent.begun_s is not None else 0.0
    looks = [replace(look, s=look.s + shift_s) for look in watch.looks]
    found = _judged(sent.answers, looks, terms, calls, tripped, shift_s)
    first = replace(before, s=0.0) if before is not None else None
    begun_us = (sent.begun_s or 0.0) * 1e6 + time.time_ns() / 1e3 - time.monotonic_ns() / 1e3
    ends_us = [round(begun_us + answer.ended_s * 1e6) for answer in sent.answers]
    return _summed(name, rate_per_s, sent.answers, looks, first, terms.slo, found, stopped_in_s), ends_us


def _judged(
    answers: Sequence[Answer],
    looks: Sequence[Look],
    terms: Terms,
    calls: Sequence[Call],
    tripped: Break | None,
    shift_s: float,
) -> Break | None:
    planned = sum(1 for call in calls for _ in turns(call))
    found = first_break(answers, looks, terms.slo, terms.share, terms.floors, planned)
    if tripped is None:
        return found
    tripped = replace(tripped, s=tripped.s + shift_s)
    return tripped if found is None or tripped.s <= found.s else found


def _summed(
    name: str,
    rate_per_s: float,
    answers: Sequence[Answer],
    looks: Sequence[Look],
    before: Look | None,
    slo: Slo,
    found: Break | None,
    stopped_in_s: float | None,
) -> Try:
    last = looks[-1] if looks else None
    return Try(
        load=name,
        rate_per_s=rate_per_s,
        sent_late_s=max((answer.sent_s - answer.due_s for answer in answers), default=0.0),
        elapsed_s=max((answer.ended_s for answer in answers), default=0.0),
        requests=len(answers),
        good=sum(is_good(answer, slo) for answer in answers),
        failed=sum(answer.state == "failed" for answer in answers),
        cancelled=sum(answer.state == "cancelled" for answer in answers),
        prompt_tokens=sum(answer.prompt_tokens for answer in answers),
        output_tokens=sum(answer.output_tokens for answer in answers),
        cached_tokens=_grown(before, last, "hit_tokens"),
        ttft_s=_spread([answer.ttft_s for answer in answers]),
        tpot_s=_spread([answer.tpot_s for answer in answers]),
        preemptions=_grown(before, last, "preempted"),
        least_free_blocks=min(_told(looks, "free_blocks"), default=None),
        least_device_free_bytes=min(_told(looks, "device_free_bytes"), default=None),
        least_host_free_bytes=min(_told(looks, "host_free_bytes"), default=None),
        most_running=max(_told(looks, "running"), default=None),
        most_waiting=max(_told(looks, "waiting"), default=None),
        broke=found.what if found is not None else None,
        term=found.term if found is not None else None,
        broke_s=found.s if found is not None else None,
        reason=found.reason if found is not None else "",
        stopped_in_s=stopped_in_s,
    )


def _grown(before: Look | None, after: Look | None, name: str) -> int | None:
    first, last = getattr(before, name, None), getattr(after, name, None)
    return None if first is None or last is None or last < first else last - first


def _told(looks: Sequence[Look], name: str) -> list[int]:
    return [value for look in looks if (value := getattr(look, name)) is not None]


def _spread(values: Sequence[float | None]) -> Spread:
    return spread(np.array([value for value in values if value is not None]))
