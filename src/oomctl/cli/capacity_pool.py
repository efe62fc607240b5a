"""`oomctl capacity pool`: what a pool of KV blocks holds of a trace's requests."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.capacity_cohorts import PrefillOption, RulesOption, TpotOption
from oomctl.cli.options import Format, FormatOption, JsonOption, chosen_format, page_width, use_colour
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.schemas.ledger import Ledger
    from oomctl.schemas.token_pool import TokenPool


def pool(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TRACE...]", help="As for `capacity cohorts`; without one, the pool alone."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", metavar="FILE", help="The pool that `ledger predict --json` printed.")
    ] = None,
    measured: Annotated[
        str | None, typer.Option("--measured", metavar="PATH", help="The pool that a log or recording tells of.")
    ] = None,
    blocks: Annotated[int | None, typer.Option("--blocks", min=1, max=2**40, help="A pool of so many blocks.")] = None,
    block_size: Annotated[
        int | None, typer.Option("--block-size", min=1, max=65536, help="Tokens of a block, where nothing tells; 16.")
    ] = None,
    replicas: Annotated[
        int, typer.Option("--replicas", min=1, max=100_000, help="Pools that share the trace's requests evenly.")
    ] = 1,
    page_tokens: Annotated[
        list[int] | None,
        typer.Option(
            "--page-tokens", min=1, help="Tokens of a mapped page of a layer's tensor; may be given several times."
        ),
    ] = None,
    rules: RulesOption = None,
    prefill_rate: PrefillOption = 8000.0,
    tpot_ms: TpotOption = 30.0,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Say what a pool of KV blocks holds: tokens, sequences by cohort, headroom, allocation models."""
    chosen = chosen_format(format, json)
    if chosen not in (Format.TABLE, Format.JSON):
        raise OomctlError(f"a pool is not printed as {chosen.value}", "use table or json", ExitCode.USAGE)
    kept, found, notes = _pool(ledger, measured, blocks, block_size)
    from oomctl.analyzers.capacity.active import Service
    from oomctl.analyzers.capacity.fits import pool_report
    from oomctl.analyzers.capacity.rules import read_rules
    from oomctl.cli.boundary import warn
    from oomctl.traces import open_trace

    report = pool_report(
        found,
        open_trace(paths, warn) if paths else None,
        rules=None if rules is None else read_rules(rules),
        service=Service(prefill_rate, tpot_ms / 1000),
        replicas=replicas,
        page_tokens=page_tokens or (),
        ledger=kept,
        reasons=notes,
    )
    if chosen is Format.JSON:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(report))
        return
    from oomctl.cli.render.token_pool import pool_text

    sys.stdout.write(pool_text(report, page_width(), use_colour()))


def _pool(
    ledger: Path | None, measured: str | None, blocks: int | None, block_size: int | None
) -> tuple["Ledger | None", "TokenPool", list[str]]:
    """The pool that the options name, with its ledger, and what had to be assumed of it."""
    if sum(given is not None for given in (ledger, measured, blocks)) != 1:
        raise OomctlError(
            "one pool is needed", "give --ledger FILE, --measured PATH, or --blocks N with --block-size B", ExitCode.USAGE
        )
    from oomctl.analyzers.capacity.pool import USUAL_BLOCK_TOKENS, given_pool, ledger_pool, measured_pool

    if ledger is not None:
        from oomctl.cli.kept import read_ledger

        kept = read_ledger(ledger)
        return kept, ledger_pool(kept), []
    if measured is not None:
        from oomctl.cli.boundary import warn
        from oomctl.pipeline import open_inputs

        loaded = open_inputs([measured], warn)
        try:
            return None, *measured_pool(loaded.connection, loaded.inputs[0].path, block_size)
        finally:
            loaded.connection.close()
    assert blocks is not None
    return None, given_pool(blocks, block_size or USUAL_BLOCK_TOKENS), []
