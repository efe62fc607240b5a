"""`oomctl capacity cohorts`: what the requests of a trace are like."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.options import Format, FormatOption, JsonOption, chosen_format, page_width, use_colour
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.schemas.cohorts import Cohorts

TraceArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...",
        help="Mooncake, Azure or BurstGPT traces, coding sessions, logs, spans, recordings: files, archives, folders, -.",
    ),
]
RulesOption = Annotated[
    Path | None, typer.Option("--cohorts", metavar="FILE", help="Rules of cohorts, in TOML (docs/capacity.md).")
]
BlockOption = Annotated[int, typer.Option("--block-size", min=1, max=65536, help="Tokens of a block of the engine.")]
PrefillOption = Annotated[
    float,
    typer.Option("--prefill-rate", min=1.0, help="Prompt tokens/s, where a trace does not tell how long requests took."),
]
TpotOption = Annotated[float, typer.Option("--tpot-ms", min=0.001, help="The same for each output token, in milliseconds.")]


def cohorts(
    paths: TraceArgument,
    rules: RulesOption = None,
    block_size: BlockOption = 16,
    prefill_rate: PrefillOption = 8000.0,
    tpot_ms: TpotOption = 30.0,
    lru: Annotated[
        list[int] | None,
        typer.Option("--lru", metavar="BLOCKS", min=1, help="A size of a prefix cache; may be given several times."),
    ] = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Say what the requests of a trace are like: lengths, arrivals, prefixes, sessions, pauses."""
    chosen = chosen_format(format, json)
    if chosen not in (Format.TABLE, Format.JSON):
        raise OomctlError(f"cohorts are not printed as {chosen.value}", "use table or json", ExitCode.USAGE)
    found = read_cohorts(paths, rules, block_size, prefill_rate, tpot_ms, lru)
    if chosen is Format.JSON:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.cohorts import cohorts_text

    sys.stdout.write(cohorts_text(found, page_width(), use_colour()))


def read_cohorts(
    paths: list[str],
    rules: Path | None,
    block_size: int,
    prefill_rate: float,
    tpot_ms: float,
    lru: list[int] | None = None,
) -> "Cohorts":
    """The cohorts of a trace, as the options of a command ask for them."""
    from oomctl.analyzers.capacity.active import Service
    from oomctl.analyzers.capacity.cohorts import LRU_BLOCKS, Options
    from oomctl.analyzers.capacity.cohorts import cohorts as run
    from oomctl.analyzers.capacity.rules import read_rules
    from oomctl.cli.boundary import warn
    from oomctl.traces import open_trace

    wanted = None if rules is None else read_rules(rules)
    options = Options(Service(prefill_rate, tpot_ms / 1000), block_size, sorted(set(lru)) if lru else LRU_BLOCKS)
    return run(open_trace(paths, warn), wanted, options)
