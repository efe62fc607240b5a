"""`oomctl attach`: the recorder, in the foreground beside a worker; or the workers there are."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.options import Format, FormatOption, JsonOption, LogFormat, chosen_format
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.collectors.live.access import Access
    from oomctl.collectors.recorder.settings import Settings


def attach(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[PID|URL]",
            help="The worker's process or its server's, or its page of metrics; without, the only one here.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The recording's folder; without, workers are listed."),
    ] = None,
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="The worker's log, to follow too.")] = None,
    rings: Annotated[
        Path | None,
        typer.Option("--rings", metavar="DIR", help="The agent's rings. [the worker's OOMCTL_RING]", show_default=False),
    ] = None,
    keep_rings: Annotated[
        bool, typer.Option("--keep-rings", help="Keep rings of dead processes although all they hold is recorded.")
    ] = False,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="URL", help="Its page of metrics, or none. [found by its ports]")
    ] = None,
    scrape: Annotated[str, typer.Option("--scrape", metavar="TIME", help="Between two scrapes; at least 1s.")] = "5s",
    kv_events: Annotated[
        list[str] | None,
        typer.Option("--kv-events", metavar="ADDRESS", help="Follow KV events there, or none. [where they are published]"),
    ] = None,
    devices: Annotated[bool, typer.Option("--devices/--no-devices", help="Ask the devices' driver (NVML).")] = True,
    otlp_receive: Annotated[
        bool, typer.Option("--otlp-receive", help="Take traces in, on ports 4317 (gRPC) and 4318 (HTTP).")
    ] = False,
    minutes: Annotated[float, typer.Option("--minutes", metavar="N", min=0.1, help="What an incident holds.")] = 10.0,
    budget: Annotated[str, typer.Option("--budget", metavar="SIZE", help="Disk for the whole recording.")] = "2GiB",
    age: Annotated[str, typer.Option("--age", metavar="TIME", help="How long it is kept: 7d, 36h. Incidents stay.")] = "7d",
    hook: Annotated[
        str | None, typer.Option("--hook", metavar="CMD", help="Run at each incident; or a URL, which gets a POST.")
    ] = None,
    otlp_endpoint: Annotated[
        str | None,
        typer.Option("--otlp-endpoint", metavar="URL", help="Send metrics and spans there, over HTTP or grpc://."),
    ] = None,
    serve_metrics: Annotated[
        int | None,
        typer.Option("--serve-metrics", metavar="PORT", help="Serve the newest figures to Prometheus, and /healthz."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="ADDRESS", help="Where both listen; others than 127.0.0.1 need a token."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Holds the token that peers must show. [OOMCTL_TOKEN]"),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="What stderr tells: lines, or JSON, an object a line.")
    ] = LogFormat.TEXT,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Record a worker until it ends; without -o, list the workers.

    Freezes incidents by itself. Read DIR with triage and query, also while it is recorded.
    """
    if output is None:
        _list(target, chosen_format(format, json))
        return
    import platform

    from oomctl import __version__
    from oomctl.cli.logs import told
    from oomctl.cli.units import parse_duration, parse_size
    from oomctl.collectors.recorder.settings import Settings
    from oomctl.targets import find

    node = platform.node()
    budget_bytes, age_s = parse_size(budget, "--budget"), parse_duration(age, "--age")
    scrape_s = parse_duration(scrape, "--scrape")
    with told(log_format, service__name="oomctl", service__version=__version__, host__name=node):
        found = find(target)
        page = found.metrics if metrics is None else None if metrics == "none" else metrics
        settings = Settings(
            root=output,
            pid=found.pid,
            node=node,
            rings=rings or found.rings,
            log=log,
            minutes=minutes,
            budget_bytes=budget_bytes,
            age_s=age_s,
            hook=hook,
            metrics=() if page is None else (page,),
            scrape_s=scrape_s,
            kv_events=found.kv_events if not kv_events else _events(kv_events),
            devices=devices and found.pid is not None,
            visible_devices=found.visible_devices,
            otlp_ports=(4317, 4318) if otlp_receive else None,
            access=_access(listen, token_file, listens=otlp_receive or serve_metrics is not None),
        )
        _check(settings, named=rings)
        _record(settings, otlp_endpoint, serve_metrics)


def _record(settings: "Settings", otlp_endpoint: str | None, serve_metrics: int | None) -> None:
    """Record until the worker ends, or a signal says so."""
    import signal

    from oomctl.collectors.recorder.health import Health
    from oomctl.collectors.recorder.loop import Recorder
    from oomctl.collectors.recorder.settings import Outlet
    from oomctl.collectors.recorder.telling import INFO, tell

    health = Health()
    outlets: list[Outlet] = []
    if otlp_endpoint is not None:
        from oomctl.collectors.recorder.otlp import OtlpOutlet

        outlets.append(OtlpOutlet(otlp_endpoint, settings.node))
    if serve_metrics is not None:
        from oomctl.collectors.recorder.prometheus_out import PrometheusOutlet

        outlets.append(PrometheusOutlet(serve_metrics, health, settings.access))
    recorder = Recorder(settings, outlets=outlets, health=health)
    tell(INFO, "recording.begins", _words(settings), root=str(settings.root), pid=settings.pid)

    def stop(number: int, frame: object) -> None:
        recorder.stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    recorder.run()
    tell(INFO, "recording.ends", f"recorded into {settings.root}", root=str(settings.root))


def _access(listen: str | None, token_file: Path | None, listens: bool) -> "Access":
    """Where to listen, and the token that is asked for: of a file, or of the environment."""
    import os

    from oomctl.collectors.live.access import LOOPBACK, MAX_TOKEN_BYTES, VARIABLE, Access

    if not listens:
        if listen is not None or token_file is not None:
            flag = "--listen" if listen is not None else "--token-file"
            raise OomctlError(f"{flag}, and nothing listens", "add --serve-metrics PORT or --otlp-receive", ExitCode.USAGE)
        return Access()
    token = os.environ.get(VARIABLE) or None
    if token_file is not None:
        try:
            with token_file.open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES).decode("utf-8", "replace").strip()
        except OSError as error:
            raise OomctlError(f"no token to be read: {error.strerror} ({token_file})", "", ExitCode.USAGE) from error
    return Access(listen or LOOPBACK, token)


def _events(words: list[str]) -> tuple[tuple[str, str | None], ...]:
    """Where to follow KV events: sockets, or pages of trtllm-serve that hand them out."""
    if words == ["none"]:
        return ()
    for word in words:
        if not word.startswith(("tcp://", "ipc://", "http://", "https://")):
            hint = "tcp://127.0.0.1:5557, or http://127.0.0.1:8000/kv_cache_events of trtllm-serve"
            raise OomctlError(f"no address of KV events: {word!r}", hint, ExitCode.USAGE)
    return tuple((word, None) for word in words)


def _check(settings: "Settings", named: Path | None) -> None:
    """Refuse what cannot be recorded, before a folder is made."""
    from oomctl.collectors.agent.process import start_ticks
    from oomctl.collectors.agent.reader import ring_paths
    from oomctl.collectors.live.prometheus.scraper import SHORTEST_S

    if settings.scrape_s < SHORTEST_S:
        what = f"--scrape is at least {SHORTEST_S:g}s, not {settings.scrape_s:g}s"
        raise OomctlError(what, "a page costs the engine's front end more than it tells then", ExitCode.USAGE)
    if settings.pid is None:
        return
    there = settings.rings is not None and bool(ring_paths(settings.rings))
    if not start_ticks(settings.pid) and not (named is not None and there):
        raise OomctlError(
            f"no such process ({settings.pid})",
            "give a running worker's pid; for what a dead one left, add --rings DIR",
            ExitCode.USAGE,
        )
    if settings.rings is None and settings.log is None and not settings.metrics:
        raise OomctlError(
            f"nothing to record: no page of metrics, no OOMCTL_RING, and no --log is given ({settings.pid})",
            "add --log FILE or --metrics URL, or start the worker with OOMCTL_RING=DIR",
            ExitCode.USAGE,
        )
    if settings.log is not None and settings.log.is_dir():
        raise OomctlError(f"a folder, not a log ({settings.log})", "give the log itself", ExitCode.USAGE)


def _words(settings: "Settings") -> str:
    """Which sources are read, in one line."""
    sources = [
        *(["rings"] if settings.rings is not None else []),
        *([f"log {settings.log}"] if settings.log is not None else []),
        *settings.metrics,
        *(f"KV events {endpoint}" for endpoint, _ in settings.kv_events),
        *(["devices"] if settings.devices else []),
        *([f"OTLP on {settings.access.at(4317)} and :4318"] if settings.otlp_ports is not None else []),
    ]
    whom = f"pid {settings.pid}" if settings.pid is not None else "a worker elsewhere"
    return f"recording {whom} into {settings.root}: {', '.join(sources)}"


def _list(target: str | None, chosen: Format) -> None:
    """Print the workers of this node."""
    from oomctl.cli.answers import chunks
    from oomctl.collectors.live.discover.workers import workers

    if target is not None:
        raise OomctlError("no folder to record into", "add -o DIR", ExitCode.USAGE)
    columns = ("pid", "engine", "state", "processes", "ports", "devices", "rings", "container", "command")
    rows = [
        (
            worker.pid,
            worker.engine,
            "its server is gone" if worker.orphan else "runs" if worker.readable else "runs, of another user",
            len(worker.members),
            " ".join(map(str, worker.ports)),
            worker.devices,
            worker.rings,
            worker.container[:12] or None,
            worker.command,
        )
        for worker in workers()
    ]
    sys.stdout.writelines(chunks(columns, rows, chosen))
