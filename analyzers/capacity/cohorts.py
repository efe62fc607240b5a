"""A trace, whole and by cohort: what its requests are like."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from oomctl.analyzers.capacity.active import Service, ends_s, levels, observed, shared_changes
from oomctl.analyzers.capacity.arrivals import gap_variation, rate_per_s, windows
from oomctl.analyzers.capacity.prefix import (
    Sharing,
    engine_hit_tokens,
    hit_tokens,
    lru_hits,
    sharing,
)
from oomctl.analyzers.capacity.rules import OTHER, Rule, assign, default_rules
from oomctl.analyzers.capacity.sessions import Links, links, parts, pauses, revision, turns
from oomctl.analyzers.capacity.spread import spread, spread_over_time
from oomctl.analyzers.capacity.traps import arrival_resolution_s
from oomctl.schemas.cohorts import Arrivals, Branches, Cohort, Cohorts, Concurrency, Prefix, Trap, Window
from oomctl.schemas.trace import Trace

Index = npt.NDArray[np.int64]
ALL = "all"
LRU_BLOCKS = (1_000, 3_000, 10_000, 30_000, 100_000)
SERVED = ("ok", "cancelled")
NO_CLOCK = "each session has its own clock: arrivals of different sessions have no order"


@dataclass(frozen=True, slots=True)
class Options:
    """How a trace is looked at.

    Attributes:
        service: How long requests take, where the trace does not tell.
        block_tokens: Of the engine, to which reservations are rounded up.
        lru_blocks: Sizes of caches, in blocks of the trace.
    """

    service: Service = field(default_factory=Service)
    block_tokens: int = 16
    lru_blocks: Sequence[int] = LRU_BLOCKS


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What is worked out once, over the whole trace, and told for each cohort."""

    trace: Trace
    options: Options
    linked: Links
    shared: Sharing | None
    lru_blocks: Index | None
    step_s: float | None
    stops_s: npt.NDArray[np.float64] | None


def cohorts(trace: Trace, rules: Sequence[Rule] | None = None, options: Options | None = None) -> Cohorts:
    """What the requests of a trace are like, all of them and by cohort.

    Prefixes are shared across cohorts, as one cache serves all. Failed and rejected requests count as arrivals alone.

    Args:
        trace: As read.
        rules: Of cohorts; None: the split that the trace suggests.
        options: How to look at it.
    """
    chosen = list(rules) if rules is not None else default_rules(trace)
    seen = _seen(trace, options or Options())
    names = assign(trace, chosen)
    arrival_s = trace.requests["arrival_s"].to_numpy()
    found = [_cohort(ALL, seen, np.arange(len(trace)))]
    for name in (*(rule.name for rule in chosen), OTHER):
        rows = (names == name).arg_true().cast(int).to_numpy().astype(np.int64)
        if len(rows):
            found.append(_cohort(name, seen, rows))
    return Cohorts(
        trace=trace.name,
        format=trace.format,
        requests=len(trace),
        sessions=trace.requests["session"].drop_nulls().n_unique(),
        start=trace.start,
        duration_s=float(arrival_s[-1] - arrival_s[0]) if trace.clock == "trace" else None,
        block_tokens=None if trace.prefixes is None else trace.prefixes.block_tokens,
        findings=[Trap(code=one.code, count=one.count, text=one.text) for one in trace.findings],
        cohorts=found,
    )


def _seen(trace: Trace, options: Options) -> _Seen:
    prefixes = trace.prefixes
    shared = lru_blocks = None
    if prefixes is not None:
        prompts = trace.requests["prompt_tokens"].to_numpy()
        shared = sharing(prefixes, np.minimum(prompts // prefixes.block_tokens, prefixes.counts))
        if trace.clock == "trace":  # else what other sessions do between two turns is not told
            lru_blocks = lru_hits(prefixes, options.lru_blocks)
    return _Seen(
        trace,
        options,
        links(trace),
        shared,
        lru_blocks,
        arrival_resolution_s(trace),
        ends_s(trace, options.service) if trace.clock == "trace" else None,
    )


def _cohort(name: str, seen: _Seen, rows: Index) -> Cohort:
    requests = seen.trace.requests[rows]
    weights = requests["weight"].fill_null(1.0).to_numpy() if requests["weight"].is_not_null().any() else None
    served = requests["status"].is_in(SERVED).to_numpy()
    prompts, outputs = requests["prompt_tokens"].to_numpy(), requests["output_tokens"]
    told = served & outputs.is_not_null().to_numpy()
    return Cohort(
        name=name,
        requests=len(rows),
        represents=float(len(rows) if weights is None else weights.sum()),
        statuses=dict(sorted(requests["status"].value_counts().rows())),
        prompt_tokens=spread(prompts[served], None if weights is None else weights[served]),
        output_tokens=spread(outputs.fill_null(0).to_numpy()[told], None if weights is None else weights[told]),
        arrivals=_arrivals(seen, rows, weights),
        concurrency=_concurrency(seen, rows[served], None if weights is None else weights[served]),
        prefix=_prefix(seen, rows, name == ALL),
        parts=parts(seen.trace, seen.linked, rows),
        revision=revision(seen.trace, seen.linked, rows),
        turns=turns(seen.trace, seen.linked, rows),
        branches=_branches(seen, rows),
        pauses=pauses(seen.trace, seen.linked, rows),
    )


def _arrivals(seen: _Seen, rows: Index, weights: npt.NDArray[np.float64] | None) -> Arrivals:
    if seen.trace.clock != "trace":
        return Arrivals(reason=NO_CLOCK)
    arrival_s = seen.trace.requests["arrival_s"].to_numpy()[rows]
    rate = rate_per_s(arrival_s, float(len(rows) if weights is None else weights.sum()))
    if weights is not None and (weights != 1).any():
        return Arrivals(rate_per_s=rate, reason="a sample of the requests: what was left out would change every gap")
    reason = "" if seen.step_s is None else f"times in steps of {seen.step_s:.3g} s tell no gap and no shorter window"
    counted = [
        Window(seconds=one.seconds, dispersion=one.dispersion, peak_to_mean=one.peak_to_mean)
        for one in windows(arrival_s, seen.step_s)
    ]
    return Arrivals(rate_per_s=rate, gap_cv=gap_variation(arrival_s, seen.step_s), windows=counted, reason=reason)


def _concurrency(seen: _Seen, rows: Index, weights: npt.NDArray[np.float64] | None) -> Concurrency | None:
    if seen.stops_s is None or len(rows) < 2:
        return None
    requests, size = seen.trace.requests[rows], seen.options.block_tokens
    starts_s, stops_s = requests["arrival_s"].to_numpy(), seen.stops_s[rows]
    tokens = requests["prompt_tokens"].to_numpy() + requests["output_tokens"].fill_null(0).to_numpy()
    each = np.ones(len(rows), dtype=np.int64)
    reserved = -(-tokens // size) * size
    if weights is not None:
        each, reserved = (np.rint(level * weights).astype(np.int64) for level in (each, reserved))
    physical = None
    prefixes = seen.trace.prefixes
    if prefixes is not None and weights is None:
        own = prefixes if len(rows) == len(seen.trace) else prefixes.take(rows)
        filled = np.minimum(requests["prompt_tokens"].to_numpy() // prefixes.block_tokens, own.counts)
        at_start, at_end = (held * prefixes.block_tokens for held in shared_changes(own, filled, starts_s, stops_s))
        physical = spread_over_time(levels(starts_s, stops_s, reserved - at_start, reserved - at_end))
    return Concurrency(
        quality="measured" if observed(seen.trace) else "simulated",
        requests=spread_over_time(levels(starts_s, stops_s, each, each)),
        reserved_tokens=spread_over_time(levels(starts_s, stops_s, reserved, reserved)),
        physical_tokens=physical,
    )


def _prefix(seen: _Seen, rows: Index, whole: bool) -> Prefix | None:
    requests, prefixes = seen.trace.requests[rows], seen.trace.prefixes
    prompts = requests["prompt_tokens"].to_numpy()
    logical = int(prompts.sum())
    cached = requests.filter(requests["cached_tokens"].is_not_null())
    asked = int(cached["prompt_tokens"].sum())
    measured = float(cached["cached_tokens"].sum() / asked) if asked else None
    if prefixes is None or seen.shared is None:
        return None if measured is None else Prefix(measured_ratio=measured, logical_tokens=logical)
    size = prefixes.block_tokens
    blocks = seen.shared.shared_blocks[rows]
    total = int(prefixes.counts[rows].sum())
    hits = int(hit_tokens(blocks, prompts, size).sum())
    return Prefix(
        block_ratio=float(blocks.sum() / total) if total else None,
        token_ratio=hits / logical if logical else None,
        engine_ratio=int(engine_hit_tokens(blocks, prompts, size).sum()) / logical if logical else None,
        measured_ratio=measured,
        lru_ratio=_lru_ratio(seen, rows, prompts, size),
        logical_tokens=logical,
        physical_tokens=logical - hits if whole else None,
    )


def _lru_ratio(seen: _Seen, rows: Index, prompts: Index, size: int) -> dict[int, float]:
    if seen.lru_blocks is None or not prompts.sum():
        return {}
    hits = (int(hit_tokens(held[rows], prompts, size).sum()) for held in seen.lru_blocks)
    return dict(zip(seen.options.lru_blocks, (hit / int(prompts.sum()) for hit in hits), strict=True))


def _branches(seen: _Seen, rows: Index) -> Branches | None:
    prefixes, shared = seen.trace.prefixes, seen.shared
    if prefixes is None or shared is None:
        return None
    own = rows[shared.branches[rows]]
    prompts = seen.trace.requests["prompt_tokens"].to_numpy()[own]
    common = hit_tokens(shared.shared_blocks[own], prompts, prefixes.block_tokens)
    return Branches(
        requests=len(own),
        shared_tokens=spread(common),
        suffix_tokens=spread(prompts - common),
        copied_blocks_at_most=len(own),
    )
