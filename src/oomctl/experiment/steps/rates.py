"""Steps that look how far a rate goes: the ramp of short requests, the mix, and the operating point."""

from oomctl.analyzers.capacity.search import search
from oomctl.experiment.load.calls import Lengths
from oomctl.experiment.rig import FEWEST, Rig
from oomctl.experiment.steps.anchor import anchor
from oomctl.experiment.steps.base import Figures, Outcome
from oomctl.schemas.experiment import Try

FIRST_RATE = 0.25
HALVINGS = 5
"""So often a ramp that breaks at once is begun anew, slower."""
PRECISION = 0.1
"""Of the operating point, as a ratio."""
WIDEST = 16.0
BY_FAR = 0.5
"""Of the requests that had to be good: with fewer, a second try would change nothing."""


def short(rig: Rig) -> Outcome:
    """Open loop, from a rate that hardly counts, doubled until something gives way."""
    start = max(FIRST_RATE, FEWEST / rig.settings.try_s)
    return _ramp(rig, rig.lengths["short"], start, rig.settings.max_rate)


def mixed(rig: Rig) -> Outcome:
    """The same with long prompts and long outputs among the short ones, from a quarter of the tokens that were kept."""
    kept, mix = rig.rate_of(4), rig.lengths["mixed"]
    start = kept / 4 * rig.lengths["short"].mean_tokens() / mix.mean_tokens()
    return _ramp(rig, mix, max(start, FEWEST / rig.settings.try_s), kept)


def operating_point(rig: Rig) -> Outcome:
    """The highest rate of the mix that is kept, by bisection, and what gives way first beyond it."""
    start, tries = anchor(rig), dict[float, Try]()

    def good(scale: float) -> bool:
        rate = start / scale
        if rate > rig.settings.max_rate:
            return False
        tries[scale] = _confirmed(rig, rig.lengths["mixed"], rate)
        if rig.gone:
            raise WorkerGone
        return tries[scale].broke is None

    try:
        low, high = search(good, PRECISION, WIDEST)
    except WorkerGone:
        return Outcome("aborted", "the worker is gone", {}, list(tries.values()))
    beyond = tries.get(low) if low is not None else None
    if high is None:
        return Outcome("failed", f"no rate from {start / WIDEST:.3g}/s on was kept", {}, list(tries.values()))
    figures: Figures = {
        "rate_per_s": start / high,
        "broken_rate_per_s": beyond.rate_per_s if beyond is not None else None,
        "breaks_first": beyond.broke if beyond is not None else None,
        "margin_blocks": tries[high].least_free_blocks,
    }
    reason = beyond.reason if beyond is not None else "nothing gave way at any rate that was tried"
    return Outcome("passed", reason, figures, list(tries.values()))


def _ramp(rig: Rig, lengths: Lengths, start: float, most: float) -> Outcome:
    """Double a rate from a start until it breaks; halve it where it breaks at once."""
    tries, kept, rate = list[Try](), None, min(start, most)
    while len(tries) <= HALVINGS or kept is not None:
        found = _confirmed(rig, lengths, rate)
        tries.append(found)
        if rig.gone:
            return Outcome("aborted", "the worker is gone", {"rate_per_s": kept}, tries)
        if found.broke is None:
            kept = rate
            if rate >= most or any(one.broke for one in tries):
                break
            rate = min(rate * 2, most)
        elif kept is not None:
            break
        else:
            rate /= 2
    figures: Figures = {"rate_per_s": kept, "prefill_tokens_per_s": _prefill_rate(tries)}
    reason = next(
        (f"{one.broke} at {one.rate_per_s:.3g}/s: {one.reason}" for one in tries if one.broke), "nothing gave way"
    )
    return Outcome("passed" if kept is not None else "failed", reason, figures, tries)


def _confirmed(rig: Rig, lengths: Lengths, rate: float) -> Try:
    """A try; where the SLO broke, but not by far, another one: the better counts, for others may use the machine."""
    first = rig.send(lengths, rate)
    if first.broke != "slo" or first.good < first.requests * rig.terms.share * BY_FAR or rig.gone:
        return first
    second = rig.send(lengths, rate)
    return second if second.good * first.requests > first.good * second.requests else first


def _prefill_rate(tries: list[Try]) -> float | None:
    """Prompt tokens per second until the first token, of the slowest rate that was kept: nobody waits there."""
    calm = min((one for one in tries if one.broke is None and one.ttft_s.p50), key=lambda one: one.rate_per_s, default=None)
    if calm is None or not calm.requests or not calm.ttft_s.p50:
        return None
    return calm.prompt_tokens / calm.requests / calm.ttft_s.p50


class WorkerGone(Exception):
    """The worker ended in the middle of a search."""
