"""`oomctl doctor`: what can be collected here, and what a deployment has checked of itself."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oomctl.cli.options import FormatOption, JsonOption, chosen_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oomctl.collectors.live.probe.finding import Finding


def doctor(
    checklist: Annotated[
        str | None,
        typer.Option(
            "--checklist", metavar="RECORDING", help="Instead, go through the deployment checklist with a recording."
        ),
    ] = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Tell what can be collected here, and what a missing source needs.

    With --checklist: each item of the deployment checklist, met, not met or not observed, with its evidence.
    """
    from oomctl.cli.answers import chunks

    chosen = chosen_format(format, json)
    rows: list[tuple[Any, ...]]
    if checklist is None:
        found = list(_findings())
        rows = [(one.source, one.state, one.detail, one.needs) for one in found]
        sys.stdout.writelines(chunks(("source", "state", "found", "needs"), rows, chosen))
        return
    from oomctl import queries
    from oomctl.analyzers.checklist import go_through
    from oomctl.cli.boundary import warn
    from oomctl.pipeline import open_inputs

    loaded = open_inputs([checklist], warn)
    try:
        queries.install(loaded.connection)
        rows = [(item.name, item.state, item.question, item.evidence) for item in go_through(loaded.connection)]
    finally:
        loaded.connection.close()
    sys.stdout.writelines(chunks(("item", "state", "question", "evidence"), rows, chosen))


def _findings() -> "Iterator[Finding]":
    from oomctl.collectors.agent.reader import ring_paths
    from oomctl.collectors.live.discover.workers import workers
    from oomctl.collectors.live.probe.engines import engine
    from oomctl.collectors.live.probe.finding import Finding
    from oomctl.collectors.live.probe.node import node
    from oomctl.collectors.live.processes import PROC
    from oomctl.targets import of_worker

    try:
        import pynvml
    except ImportError:
        pynvml = None
    yield from node(Path("/"), pynvml)
    found = workers()
    if not found:
        yield Finding("engines", "missing", "no worker of an engine runs here", "start one, or attach to its URL")
    for worker in found:
        target = of_worker(worker)
        yield from engine(worker, target.metrics, len(target.kv_events), PROC, lambda folder: len(ring_paths(folder)))
