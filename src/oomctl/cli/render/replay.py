"""A replay, and a search for a limit, as a page; the JSON has every figure."""

from collections.abc import Sequence

from oomctl.cli.render.columns import Figure, percent, table
from oomctl.cli.render.sheet import Sheet
from oomctl.schemas.replay import CohortReplay, Limit, Probe, Replay, Slo


def replay_text(found: Replay, width: int, colour: bool) -> str:
    """The whole page, newline at its end."""
    sheet = Sheet(width, colour)
    pool = found.pool
    said = [found.trace, f"policy {found.policy}", f"compute {found.compute}", f"{found.elapsed_s:,.0f} s simulated"]
    sheet.wrapped(" · ".join(said), hang=2, style="bold")
    sheet.heading(f"POOL of {pool.total_blocks:,} blocks of {pool.block_tokens} tokens")
    heads: Sequence[str] = ("peak", "of it", "mean", "of it", "over for s", "peak need", "evicted", "copied")
    figures: Sequence[Figure] = (
        pool.peak_blocks,
        percent(pool.peak_blocks / pool.total_blocks),
        round(pool.mean_blocks),
        percent(pool.mean_blocks / pool.total_blocks),
        round(pool.over_s, 1) if pool.over_s else None,
        pool.peak_need_blocks,
        pool.evicted_blocks or None,
        pool.copied_blocks or None,
    )
    table(sheet, heads, [("blocks in use", figures)])
    sheet.heading("REQUESTS")
    heads = ("requests", "at once", "queued", "rejected", "cancelled", "preempted", "wait p50", "p95", "p99")
    table(sheet, heads, [(one.name, _requests(one)) for one in found.cohorts])
    sheet.heading("TOKENS COMPUTED, in thousands")
    heads = ("prompt", "found", "share", "computed", "again")
    table(sheet, heads, [(one.name, _tokens(one)) for one in found.cohorts])
    sheet.heading(f"ANSWERS within {_slo(found.slo)}: {found.goodput_per_s:.2f} per second")
    heads = ("good", "share", "TTFT p50", "p95", "p99", "TPOT ms p50", "p95", "p99")
    table(sheet, heads, [(one.name, _answers(one)) for one in found.cohorts])
    if found.rejections:
        sheet.gap()
        sheet.wrapped("rejected: " + ", ".join(f"{count:,} {reason}" for reason, count in found.rejections.items()), 0, 2)
    return sheet.text()


def limit_text(found: Limit, width: int, colour: bool) -> str:
    """The whole page, newline at its end."""
    sheet = Sheet(width, colour)
    unit = "requests per second" if found.searched == "rate" else "blocks"
    aim = f"{percent(found.share)} of the answers within {_slo(found.slo)}"
    sheet.wrapped(f"{found.trace} · policy {found.policy} · {aim}", hang=2, style="bold")
    sheet.gap()
    if found.value is None:
        sheet.wrapped(f"Nothing that was tried keeps it: not {_value(found.tries, found.searched)} {unit} either.")
    else:
        word = "at most" if found.searched == "rate" else "at least"
        times = f", {found.speedup:.3g} times the trace's" if found.speedup is not None else ""
        sheet.wrapped(f"It holds with {word} {_number(found.value)} {unit}{times}.")
    if found.breaks_first is None:
        sheet.wrapped("It broke nowhere that was tried.")
    elif found.breaks_first == "memory":
        sheet.wrapped("Memory breaks first: beyond it, a pool without end would still keep the SLO.")
    else:
        sheet.wrapped("The SLO breaks first: beyond it, a pool without end would not keep it either.")
    sheet.heading("TRIED")
    rows = [(f"{_number(one.value)} {unit}", (percent(one.good_share), one.preemptions)) for one in found.tries]
    table(sheet, ("good", "preemptions"), rows)
    return sheet.text()


def _value(tries: Sequence[Probe], searched: str) -> str:
    values = [one.value for one in tries]
    return _number(min(values) if searched == "rate" else max(values))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _slo(slo: Slo) -> str:
    return f"TTFT {slo.ttft_s:g} s and TPOT {slo.tpot_s * 1000:g} ms"


def _requests(one: CohortReplay) -> Sequence[Figure]:
    waits = one.wait_s
    return (one.requests, one.at_once, one.queued, one.rejected, one.cancelled or None, one.preempted or None,
            waits.p50, waits.p95, waits.p99)  # fmt: skip


def _tokens(one: CohortReplay) -> Sequence[Figure]:
    share = percent(one.hit_tokens / one.prompt_tokens) if one.prompt_tokens else None
    return (one.prompt_tokens // 1000, one.hit_tokens // 1000, share, one.computed_tokens // 1000,
            one.recomputed_tokens // 1000 or None)  # fmt: skip


def _answers(one: CohortReplay) -> Sequence[Figure]:
    first, each = one.ttft_s, one.tpot_s
    times = [None if value is None else value * 1000 for value in (each.p50, each.p95, each.p99)]
    return (one.good, percent(one.good / one.requests), first.p50, first.p95, first.p99, *times)
