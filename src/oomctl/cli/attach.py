"""`oomctl attach`: the recorder, in the foreground beside a worker."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.collectors.recorder.settings import Settings


def attach(
    pid: Annotated[int, typer.Argument(metavar="PID", min=1, help="The worker's process, or its server's.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The recording's folder.")],
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="The worker's log, to follow too.")] = None,
    rings: Annotated[
        Path | None,
        typer.Option("--rings", metavar="DIR", help="The agent's rings. [the worker's OOMCTL_RING]", show_default=False),
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", metavar="N", min=0.1, help="What an incident holds.")] = 10.0,
    budget: Annotated[str, typer.Option("--budget", metavar="SIZE", help="Disk for the whole recording.")] = "2GiB",
    age: Annotated[str, typer.Option("--age", metavar="TIME", help="How long it is kept: 7d, 36h. Incidents stay.")] = "7d",
    hook: Annotated[
        str | None, typer.Option("--hook", metavar="CMD", help="Run at each incident; or a URL, which gets a POST.")
    ] = None,
    otlp_endpoint: Annotated[
        str | None, typer.Option("--otlp-endpoint", metavar="URL", help="Send metrics and spans there, OTLP over HTTP.")
    ] = None,
) -> None:
    """Record a worker until it ends, or until this is told to.

    Freezes incidents by itself. Read DIR with triage and query, also while it is recorded.
    """
    import platform
    import signal

    from oomctl.cli.boundary import note
    from oomctl.cli.units import parse_duration, parse_size
    from oomctl.collectors.recorder.loop import Recorder
    from oomctl.collectors.recorder.processes import ring_folder
    from oomctl.collectors.recorder.settings import Outlet, Settings

    settings = Settings(
        root=output,
        pid=pid,
        node=platform.node(),
        rings=rings or ring_folder(pid),
        log=log,
        minutes=minutes,
        budget_bytes=parse_size(budget, "--budget"),
        age_s=parse_duration(age, "--age"),
        hook=hook,
    )
    _check(settings, named=rings)
    outlets: list[Outlet] = []
    if otlp_endpoint is not None:
        if not otlp_endpoint.startswith(("http://", "https://")):
            raise OomctlError(
                f"--otlp-endpoint is no URL: {otlp_endpoint!r}", "for instance http://localhost:4318", ExitCode.USAGE
            )
        from oomctl.collectors.recorder.otlp import OtlpOutlet

        outlets.append(OtlpOutlet(otlp_endpoint, settings.node))
    recorder = Recorder(settings, outlets=outlets, say=note)

    def stop(number: int, frame: object) -> None:
        recorder.stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    recorder.run()


def _check(settings: "Settings", named: Path | None) -> None:
    """Refuse what cannot be recorded, before a folder is made."""
    from oomctl.collectors.agent.process import start_ticks
    from oomctl.collectors.agent.reader import ring_paths

    there = settings.rings is not None and bool(ring_paths(settings.rings))
    if not start_ticks(settings.pid) and not (named is not None and there):
        raise OomctlError(
            f"no such process ({settings.pid})",
            "give a running worker's pid; for what a dead one left, add --rings DIR",
            ExitCode.USAGE,
        )
    if settings.rings is None and settings.log is None:
        raise OomctlError(
            f"nothing to record: the process was started without OOMCTL_RING, and no --log is given ({settings.pid})",
            "add --log FILE, or start the worker with OOMCTL_RING=DIR",
            ExitCode.USAGE,
        )
    if settings.log is not None and settings.log.is_dir():
        raise OomctlError(f"a folder, not a log ({settings.log})", "give the log itself", ExitCode.USAGE)
