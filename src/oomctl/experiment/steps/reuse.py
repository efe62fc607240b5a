"""Steps on what requests leave behind: prefixes that are found again or not, blocks of who hangs up, contexts that wait."""

import random
import time
from dataclasses import replace

from oomctl.experiment.load.aiperf import Cancel
from oomctl.experiment.load.calls import Call, Lengths, tokens
from oomctl.experiment.rig import NotPossible, Rig
from oomctl.experiment.steps.anchor import hold
from oomctl.experiment.steps.base import Figures, Outcome
from oomctl.schemas.experiment import Try

CALM = 0.5
"""Of the rate that the mix kept."""
SHARED = 0.75
"""Of a prompt, where prefixes are to be found."""
CANCELLED = 0.3
DRAWN = 20
"""Requests of which these are drawn, at least."""
TURNS_OF_SESSION = 2
BACK_S = 30.0
"""After which blocks of requests that are gone have to be free."""


def prefixes(rig: Rig) -> Outcome:
    """Prompts that share their front, and prompts that share nothing, at the same rate."""
    lengths = _alike(rig)
    shared = round(lengths.pairs[0][0] * SHARED)

    def loads(mix_per_s: float) -> list[Try]:
        rate = mix_per_s * _lighter(rig, lengths)
        return [
            rig.send(lengths, rate, rig.plan(lengths, rate), "misses"),
            rig.send(lengths, rate, rig.plan(lengths, rate, shared_tokens=shared), "hits"),
        ]

    held = hold(rig, CALM, loads)
    misses, hits = held.last
    figures: Figures = {
        "hit_ratio": _ratio(hits), "miss_hit_ratio": _ratio(misses), "shared_ratio": SHARED,
        "hit_ttft_p50_s": hits.ttft_s.p50, "miss_ttft_p50_s": misses.ttft_s.p50, **held.figures,
    }  # fmt: skip
    if (bad := held.broken()) is not None:
        return replace(bad, figures=figures)
    if hits.cached_tokens is None:
        raise NotPossible("the page of metrics does not tell what a prefix cache found")
    if not hits.cached_tokens:
        why = "nothing is found again: no prefix cache, or prompts shorter than a block"
        return Outcome("failed", why, figures, held.tries)
    return Outcome("passed", held.said, figures, held.tries)


def cancels_and_pauses(rig: Rig) -> Outcome:
    """Clients that hang up, and sessions whose tool runs between two turns; then all blocks have to be free again."""
    mix, alike, pause_s = rig.lengths["mixed"], _alike(rig), rig.settings.try_s / 10
    figures: Figures = {"pause_s": pause_s}

    def loads(mix_per_s: float) -> list[Try]:
        idle = rig.life.quiet()
        calls = rig.plan(mix, mix_per_s, max(rig.settings.try_s, DRAWN / mix_per_s))
        hung_up = rig.send(mix, mix_per_s, calls, "cancellations", Cancel(CANCELLED, _half_way_s(rig)))
        figures.update(_returned(rig, idle.free_blocks if idle is not None else None))
        rate = mix_per_s * _lighter(rig, alike) / TURNS_OF_SESSION
        sessions = rig.plan(alike, rate, change=lambda call, rng: _session(call, rng, pause_s))
        waited = rig.send(alike, rate, sessions, "tool pauses")
        again = sum(len(call.then.prompt) for call in sessions if call.then is not None)
        known = waited.cached_tokens is not None and again
        figures["kept_over_pause_ratio"] = (waited.cached_tokens or 0) / again if known else None
        return [hung_up, waited]

    held = hold(rig, CALM, loads)
    hung_up, _ = held.last
    figures |= {"cancelled": hung_up.cancelled, **held.figures}
    if (bad := held.broken()) is not None:
        return replace(bad, figures=figures)
    if not hung_up.cancelled:
        return Outcome("failed", "nobody hung up: every request ended before it could", figures, held.tries)
    if figures["blocks_kept"] and figures["returned_in_s"] is None:
        why = f"{figures['blocks_kept']} blocks of requests that are gone are not free"
        return Outcome("failed", why, figures, held.tries)
    return Outcome("passed", held.said, figures, held.tries)


def _alike(rig: Rig) -> Lengths:
    """One length: the mix's longer prompts, and its median output."""
    pairs = rig.lengths["mixed"].pairs
    prompts, outputs = sorted(prompt for prompt, _ in pairs), sorted(output for _, output in pairs)
    _, most = rig.life.model
    # A session's second turn is half as long again, and both answer.
    return Lengths("alike", [(prompts[len(prompts) * 3 // 4], outputs[len(outputs) // 2])]).within(most // 2)


def _lighter(rig: Rig, lengths: Lengths) -> float:
    """By what a rate of the mix is multiplied so that these ask for no more tokens than it did."""
    return min(1.0, rig.lengths["mixed"].mean_tokens() / lengths.mean_tokens())


def _half_way_s(rig: Rig) -> float:
    """When half of the mix's requests would be half way through."""
    step = rig.experiment.step(5)
    kept = [one for one in step.tries if one.broke is None] if step is not None else []
    if not kept:
        return 0.5
    one = kept[0]
    output = one.output_tokens / max(one.requests, 1)
    return max(0.01, (one.ttft_s.p50 or 0.0) + (one.tpot_s.p50 or 0.0) * output / 2)


def _returned(rig: Rig, idle_blocks: int | None) -> Figures:
    """How long until as many blocks are free as were before."""
    begun_s = time.monotonic()
    look = rig.life.quiet(BACK_S)
    while look is not None and idle_blocks is not None and (look.free_blocks or 0) < idle_blocks:
        if time.monotonic() - begun_s > BACK_S:
            return {"blocks_kept": idle_blocks - (look.free_blocks or 0), "returned_in_s": None}
        time.sleep(0.2)
        look = rig.life.watch.look()
    known = look is not None and idle_blocks is not None
    return {"blocks_kept": 0 if known else None, "returned_in_s": time.monotonic() - begun_s if known else None}


def _session(call: Call, rng: random.Random, pause_s: float) -> Call:
    """A call whose answer a tool works with for a while; the next turn repeats its prompt and adds to it."""
    more = tokens(rng, max(len(call.prompt) // 2, 1))
    return replace(call, then=Call(0.0, call.prompt + more, call.output_tokens), pause_s=pause_s)


def _ratio(one: Try) -> float | None:
    return None if one.cached_tokens is None or not one.prompt_tokens else one.cached_tokens / one.prompt_tokens
