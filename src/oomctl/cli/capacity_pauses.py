"""`oomctl capacity pauses`: keep, move or drop a context while its session waits for a tool."""

import sys
from typing import Annotated

import typer

from oomctl.cli.capacity_cohorts import PrefillOption, TraceArgument
from oomctl.cli.capacity_replay import GapOption
from oomctl.cli.options import JsonOption, page_width, use_colour


def pauses(
    paths: TraceArgument,
    prefill_rate: PrefillOption = 8000.0,
    bytes_per_token: Annotated[
        str, typer.Option("--bytes-per-token", metavar="SIZE", help="Of the KV cache, such as 128KiB.")
    ] = "128KiB",
    link: Annotated[
        str, typer.Option("--link", metavar="SIZE", help="Bytes per second to the host, each way, such as 25GB.")
    ] = "25GB",
    link_busy: Annotated[
        float, typer.Option("--link-busy", min=0.0, max=0.99, help="Share of the link that others take.")
    ] = 0.0,
    session_gap: GapOption = 60.0,
    subagents: Annotated[
        bool, typer.Option("--subagents", help="Count the waits of subagents too, which hold contexts of their own.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Weigh keeping, moving and dropping contexts while tools run, and print thresholds to configure."""
    from oomctl.analyzers.capacity.waits.report import report
    from oomctl.analyzers.capacity.waits.waste import Costs
    from oomctl.cli.boundary import warn
    from oomctl.cli.units import parse_size
    from oomctl.traces import open_trace

    token_bytes, per_s = parse_size(bytes_per_token, "--bytes-per-token"), parse_size(link, "--link")
    costs = Costs(prefill_rate, max(1, token_bytes), max(1, per_s), link_busy)
    found = report(open_trace(paths, warn), costs, session_gap, subagents=subagents)
    if json:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.pauses import pauses_text

    sys.stdout.write(pauses_text(found, page_width(), use_colour()))
