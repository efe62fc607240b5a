"""What a trace asks of a pool: sequences by cohort, headroom, and two ways to allocate the same requests."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from oomctl.analyzers.capacity.active import Levels, Service, ends_s, levels, observed
from oomctl.analyzers.capacity.cohorts import ALL, NO_CLOCK, SERVED
from oomctl.analyzers.capacity.pool import blocks_of
from oomctl.analyzers.capacity.prefix import hit_tokens, sharing
from oomctl.analyzers.capacity.rules import OTHER, Rule, assign, default_rules
from oomctl.analyzers.capacity.spread import spread, spread_over_time
from oomctl.schemas.cohorts import Spread, Trap
from oomctl.schemas.ledger import Ledger
from oomctl.schemas.token_pool import Allocation, Fit, Headroom, Model, PoolReport, TokenPool
from oomctl.schemas.trace import Trace

Index = npt.NDArray[np.int64]
PAGE_BYTES = (64 << 10, 2 << 20)
"""Pages that a device maps: 2 MiB by CUDA's driver, 64 KiB by a changed one (vAttention, ASPLOS 2025)."""


def pool_report(
    pool: TokenPool,
    trace: Trace | None,
    *,
    rules: Sequence[Rule] | None = None,
    service: Service | None = None,
    replicas: int = 1,
    page_tokens: Sequence[int] = (),
    ledger: Ledger | None = None,
    reasons: Sequence[str] = (),
) -> PoolReport:
    """What a trace asks of a pool.

    Args:
        pool: The pool of one replica.
        trace: None: the pool alone.
        rules: Of cohorts; None: the split that the trace suggests.
        service: How long requests take, where the trace does not tell.
        replicas: Pools that share the trace's requests evenly.
        page_tokens: Of a page of a layer's tensor; none: by the bytes of a token, where the pool tells them.
        ledger: That the pool comes from, for what a restart takes.
        reasons: What is not told so far, and why.
    """
    report = PoolReport(pool=pool, replicas=replicas, reasons=list(reasons))
    if ledger is not None:
        report.headroom += _of_a_second_worker(pool, ledger)
    if trace is None:
        return report
    report.trace = trace.name
    report.findings = [Trap(code=one.code, count=one.count, text=one.text) for one in trace.findings]
    served = trace.where(pl.col("status").is_in(SERVED))
    if not len(served):
        report.reasons.append("no request of the trace was served")
        return report
    tokens = _tokens(served)
    chosen = list(rules) if rules is not None else default_rules(served)
    names = assign(served, chosen)
    report.fits = [_fit(ALL, pool, tokens)]
    for name in (*(rule.name for rule in chosen), OTHER):
        if (own := (names == name).to_numpy()).any():
            report.fits.append(_fit(name, pool, tokens[own]))
    alive = _Alive(served, service or Service(), replicas) if served.clock == "trace" and len(served) > 1 else None
    if alive is None:
        report.reasons.append(f"what is alive at once: {NO_CLOCK}" if served.clock != "trace" else "one request only")
    else:
        each = blocks_of(tokens, pool)
        report.alive_blocks = spread_over_time(alive.level(each))
        report.alive_quality = "measured" if observed(served) else "simulated"
        size = pool.groups[0].block_tokens
        empty = alive.level(each * size - tokens).quantiles((0.95,))[0] if len(pool.groups) == 1 else None
        report.headroom = [*_of_load(report.alive_blocks, replicas), _fragmentation(empty, size), *report.headroom]
        kept = [one.blocks for one in report.headroom if one.name in LOAD]
        report.left_blocks = pool.blocks - sum(blocks for blocks in kept if blocks is not None)
    if len(pool.groups) > 1:
        report.reasons.append("ways to allocate: several groups of layers take blocks of their own")
        return report
    pages = list(page_tokens) or _pages(pool)
    if not pages:
        report.reasons.append("virtual contiguity: the pool does not tell a token's bytes in a layer; give --page-tokens")
    report.allocations = list(_allocations(pool, served, tokens, alive, pages))
    return report


class _Alive:
    """From what requests take to how much of it is taken at once, on one of several replicas."""

    def __init__(self, trace: Trace, service: Service, replicas: int) -> None:
        self._starts_s = trace.requests["arrival_s"].to_numpy()
        self._stops_s = ends_s(trace, service)
        self._replicas = replicas

    def level(self, amounts: Index) -> Levels:
        """Over time, rounded up."""
        found = levels(self._starts_s, self._stops_s, amounts, amounts)
        return Levels(-(-found.values // self._replicas), found.seconds)


LOAD = ("alive at p50", "p95", "burst", "restart", "rolling update")


def _of_load(alive: Spread, replicas: int) -> Iterator[Headroom]:
    """What one replica keeps for the load of the trace, each on top of the ones before."""
    p50, p95, peak = (int(value or 0) for value in (alive.p50, alive.p95, alive.max))
    yield Headroom(name="alive at p50", blocks=p50, formula="blocks taken at half of the time")
    yield Headroom(name="p95", blocks=p95 - p50, formula="from half of the time to 95% of it")
    yield Headroom(name="burst", blocks=peak - p95, formula="from 95% of the time to the peak of the trace")
    why = "" if replicas > 1 else "with one replica nothing is served meanwhile; give --replicas"
    more = -(-p95 // (replicas - 1)) if replicas > 1 else None
    yield Headroom(name="restart", blocks=more, formula=f"p95 of one replica over {replicas - 1} others", reason=why)
    text = "replicas one at a time: the restart's blocks serve it"
    yield Headroom(name="rolling update", blocks=0 if replicas > 1 else None, formula=text, reason=why)


def _fragmentation(empty_tokens: float | None, block_tokens: int) -> Headroom:
    return Headroom(
        name="fragmentation, in those above",
        blocks=None if empty_tokens is None else -(-int(empty_tokens) // block_tokens),
        formula="empty ends of last blocks, at 95% of the time",
        reason="" if empty_tokens is not None else "several groups of layers take blocks of their own",
    )


def _of_a_second_worker(pool: TokenPool, ledger: Ledger) -> Iterator[Headroom]:
    """What a second worker on the same device would take from the pool."""
    for entry in ledger.entries:
        if entry.rank == 0 and entry.lifetime == "headroom" and entry.owner in ("restart overlap", "rolling update"):
            told = entry.bytes is not None and pool.bytes_per_block
            yield Headroom(
                name=f"{entry.owner}, same device",
                blocks=-(-entry.bytes // pool.bytes_per_block)
                if entry.bytes is not None and pool.bytes_per_block
                else None,
                formula=entry.formula,
                reason="" if told else "a part of it is not known",
            )


def _fit(name: str, pool: TokenPool, tokens: Index) -> Fit:
    own = spread(tokens)
    each = blocks_of(tokens, pool)
    at = [int(blocks_of(np.array([np.ceil(value or 0)], dtype=np.int64), pool)[0]) for value in (own.p50, own.p95, own.p99)]
    room = each * pool.groups[0].block_tokens
    limit = pool.max_model_tokens
    too_long = (each > pool.blocks) | (tokens > limit if limit is not None else False)
    return Fit(
        name=name,
        sequence_tokens=own,
        blocks_p50=at[0],
        blocks_p95=at[1],
        blocks_p99=at[2],
        sequences_p50=pool.blocks // at[0] if at[0] else None,
        sequences_p95=pool.blocks // at[1] if at[1] else None,
        sequences_p99=pool.blocks // at[2] if at[2] else None,
        sequences_mean=float(pool.blocks / each.mean()) if each.sum() else None,
        rounding_ratio=float(1 - tokens.sum() / room.sum()) if room.sum() and len(pool.groups) == 1 else None,
        too_long=int(too_long.sum()),
    )


def _allocations(
    pool: TokenPool, trace: Trace, tokens: Index, alive: "_Alive | None", pages: Sequence[int]
) -> Iterator[Allocation]:
    """The same requests, each rounded up to whole blocks, or to whole pages of some sizes."""
    common = _common(trace)
    models: list[tuple[Model, int]] = [("paged blocks", pool.groups[0].block_tokens)]
    for model, size in models + [("virtual contiguity", size) for size in pages]:
        granules = -(-tokens // size)
        room = granules * size
        yield Allocation(
            model=model,
            granule_tokens=size,
            waste_ratio=float(1 - tokens.sum() / room.sum()) if room.sum() else 0.0,
            sequences_mean=float(pool.tokens / room.mean()) if room.sum() else 0.0,
            allocations=spread(granules),
            alive_tokens=None if alive is None else spread_over_time(alive.level(room)),
            shared_ratio=None if common is None else _share(common // size * size, trace),
        )


def _common(trace: Trace) -> Index | None:
    """Prompt tokens of each request that stand at the beginning of one before too, in whole blocks of the trace."""
    prefixes = trace.prefixes
    if prefixes is None:
        return None
    prompts = trace.requests["prompt_tokens"].to_numpy()
    return hit_tokens(sharing(prefixes, prefixes.counts).shared_blocks, prompts, prefixes.block_tokens)


def _share(part: Index, trace: Trace) -> float | None:
    whole = int(trace.requests["prompt_tokens"].sum())
    return int(part.sum()) / whole if whole else None


def _tokens(trace: Trace) -> Index:
    prompts = trace.requests["prompt_tokens"].to_numpy()
    return np.asarray(prompts + trace.requests["output_tokens"].fill_null(0).to_numpy())


def _pages(pool: TokenPool) -> list[int]:
    """Tokens of a page of one layer's keys, or values."""
    per_token = pool.layer_bytes_per_token
    return [] if not per_token else [size // per_token for size in PAGE_BYTES if size >= per_token]
