"""`oomctl capacity experiment`: the ten steps on a worker, and two of their artifacts beside each other."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.options import JsonOption, page_width, use_colour
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.schemas.replay import Slo


experiment = typer.Typer(
    name="experiment",
    help="Find the rate at which the SLO breaks before memory does, in ten guarded steps; or compare two such findings.",
    rich_markup_mode=None,
    add_completion=False,
)


@experiment.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    launch: Annotated[
        str | None,
        typer.Option("--launch", metavar="COMMAND", help='Start and end this server, such as "vllm serve MODEL".'),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="A server that runs; steps 1, 2 and 9 are skipped.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Its folder; given again, it goes on where it was left."),
    ] = None,
    slo: Annotated[
        str, typer.Option("--slo", metavar="ttft=TIME,tpot=TIME", help="When an answer is good.")
    ] = "ttft=2s,tpot=80ms",
    share: Annotated[float, typer.Option("--share", min=0.0, max=1.0, help="Of the requests that must be good.")] = 0.9,
    steady: Annotated[str, typer.Option("--steady", metavar="TIME", help="Length of the steady phase.")] = "30m",
    try_: Annotated[str, typer.Option("--try", metavar="TIME", help="Length of one try of a rate.")] = "60s",
    cohorts: Annotated[
        str | None,
        typer.Option("--cohorts", metavar="FILE|TRACE", help="Lengths as a trace, or `cohorts --json`, has them."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", metavar="FILE", help="Hold the KV pool against it. [predicted where it can be]"),
    ] = None,
    free_blocks: Annotated[
        float, typer.Option("--free-blocks", min=0.0, max=1.0, help="Share of the KV blocks that has to stay free.")
    ] = 0.05,
    free_memory: Annotated[
        float, typer.Option("--free-memory", min=0.0, max=1.0, help="Share of the device's memory that has to.")
    ] = 0.01,
    errors: Annotated[float, typer.Option("--errors", min=0.0, max=1.0, help="Share of answers that may fail.")] = 0.1,
    max_rate: Annotated[
        float, typer.Option("--max-rate", min=0.01, help="No try is faster, requests per second.")
    ] = 1000.0,
    seed: Annotated[int, typer.Option("--seed", help="Of what is drawn.")] = 0,
    json: JsonOption = False,
) -> None:
    """Find the rate at which the SLO breaks before memory does, in ten guarded steps.

    The load comes from aiperf (pip install 'oomctl[experiment]'). Ctrl-C ends all that was started.
    """
    if context.invoked_subcommand is not None:
        return
    from oomctl.cli.boundary import note
    from oomctl.cli.units import parse_duration
    from oomctl.experiment.run import run as go
    from oomctl.experiment.settings import Settings

    if (launch is None) == (url is None):
        raise OomctlError("one server is needed", 'give --launch "vllm serve MODEL", or --url URL', ExitCode.USAGE)
    if url is not None and not url.startswith(("http://", "https://")):
        raise OomctlError(f"no URL of a server: {url!r}", "for instance http://127.0.0.1:8000", ExitCode.USAGE)
    if output is None:
        raise OomctlError("no folder for what is found", "add -o DIR", ExitCode.USAGE)
    settings = Settings(
        root=output,
        launch=launch,
        url=url,
        slo=_slo(slo),
        share=share,
        steady_s=parse_duration(steady, "--steady"),
        try_s=parse_duration(try_, "--try"),
        cohorts=cohorts,
        ledger=ledger,
        floor_ratio=free_blocks,
        device_floor_ratio=free_memory,
        error_ratio=errors,
        seed=seed,
        max_rate=max_rate,
    )
    found = go(settings, note)
    if json:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.experiment import experiment_text

    sys.stdout.write(experiment_text(found, page_width(), use_colour()))


@experiment.command("diff")
def diff(
    before: Annotated[Path, typer.Argument(help="An experiment's folder, or its experiment.json.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
    json: JsonOption = False,
) -> None:
    """Compare two experiments: what was asked, how each step ended, how the limits moved."""
    from oomctl.analyzers.capacity.experiment.compare import diff as compare
    from oomctl.experiment.folder import read_experiment

    found = compare(read_experiment(before), read_experiment(after))
    if json:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.experiment import diff_text

    sys.stdout.write(diff_text(found, page_width(), use_colour()))


def _slo(text: str) -> "Slo":
    """`ttft=2s,tpot=80ms`; what is left out keeps its default."""
    from oomctl.cli.units import parse_duration
    from oomctl.schemas.replay import Slo

    found = {"ttft": 2.0, "tpot": 0.08}
    for part in filter(None, text.split(",")):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in found:
            raise OomctlError(f"--slo does not know {name[:40]!r}", "such as ttft=2s,tpot=80ms", ExitCode.USAGE)
        found[name] = parse_duration(value, "--slo")
    return Slo(ttft_s=found["ttft"], tpot_s=found["tpot"])
