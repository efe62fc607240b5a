"""A pool of KV blocks and what a trace asks of it, as a page; the JSON has every figure."""

from oomctl.cli.render.columns import Figure, percent, table
from oomctl.cli.render.sheet import Sheet
from oomctl.schemas.ledger import GIB
from oomctl.schemas.token_pool import Allocation, Fit, Headroom, PoolReport, TokenPool


def pool_text(report: PoolReport, width: int, colour: bool) -> str:
    """The whole page, newline at its end."""
    sheet = Sheet(width, colour)
    sheet.wrapped(_pool(report.pool), hang=2, style="bold")
    if report.trace is not None:
        shared = f", shared by {report.replicas} replicas" if report.replicas > 1 else ""
        sheet.wrapped(f"trace: {report.trace}{shared}", hang=2)
    for trap in report.findings:
        sheet.wrapped(f"{trap.code}: {trap.text}", 2, 2)
    if report.fits:
        sheet.heading("SEQUENCES THAT FIT, prompt and output, each as long as the quantile")
        heads = ("requests", "tokens p50", "p95", "p99", "fit p50", "p95", "p99", "of its mix", "rounding", "too long")
        table(sheet, heads, [(fit.name, _fit(fit)) for fit in report.fits])
    if report.headroom:
        quality = f" ({report.alive_quality})" if report.alive_quality else ""
        sheet.heading(f"BLOCKS TO KEEP, each on top of those above{quality}")
        own = [one for one in report.headroom if one.blocks is not None]
        table(sheet, ("blocks", "of the pool"), [(one.name, _headroom(one, report.pool)) for one in own])
        if report.left_blocks is not None:
            left = (
                f"{report.left_blocks:,} blocks left"
                if report.left_blocks >= 0
                else f"{-report.left_blocks:,} blocks SHORT"
            )
            sheet.add(f"{left} for the load of the trace", "bold" if report.left_blocks >= 0 else "bold red", 2)
    if report.allocations:
        sheet.heading("TWO WAYS TO ALLOCATE the same requests")
        ways = ("tokens a piece", "empty", "fit, of the mix", "pieces p50", "p99", "alive p50", "p99", "max", "shareable")
        table(sheet, ways, [(one.model, _allocation(one)) for one in report.allocations])
    reasons = [f"{one.name}: {one.reason}" for one in report.headroom if one.blocks is None] + report.reasons
    if reasons:
        sheet.gap()
    for reason in dict.fromkeys(reasons):
        sheet.wrapped(f"not told: {reason}", hang=2)
    return sheet.text()


def _pool(pool: TokenPool) -> str:
    sizes = ", ".join(dict.fromkeys(str(group.block_tokens) for group in pool.groups))
    said = [f"{pool.blocks:,} blocks of {sizes} tokens", f"{pool.tokens:,} tokens", f"{pool.source} ({pool.quality})"]
    if pool.bytes_per_block is not None:
        said.append(f"{pool.blocks * pool.bytes_per_block / GIB:.2f} GiB per rank")
    if pool.bytes_per_token is not None:
        said.append(f"{pool.bytes_per_token / 2**10:.2f} KiB per token")
    return " · ".join(said)


def _fit(fit: Fit) -> list[Figure]:
    tokens = fit.sequence_tokens
    return [
        tokens.count,
        tokens.p50,
        tokens.p95,
        tokens.p99,
        fit.sequences_p50,
        fit.sequences_p95,
        fit.sequences_p99,
        fit.sequences_mean,
        percent(fit.rounding_ratio),
        fit.too_long or None,
    ]


def _headroom(one: Headroom, pool: TokenPool) -> list[Figure]:
    return [one.blocks, None if one.blocks is None else percent(one.blocks / pool.blocks)]


def _allocation(one: Allocation) -> list[Figure]:
    alive = one.alive_tokens
    return [
        one.granule_tokens,
        percent(one.waste_ratio),
        one.sequences_mean,
        one.allocations.p50,
        one.allocations.p99,
        *((alive.p50, alive.p99, alive.max) if alive is not None else (None, None, None)),
        percent(one.shared_ratio),
    ]
