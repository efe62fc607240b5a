"""`oomctl top`: the workers of this node as they stand, or a recording as it went."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.analyzers.picture.state import Picture

PERIOD_S = 1.0


def top(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[PID|URL]", help="One worker, or a page of metrics. [all of this node]", show_default=False
        ),
    ] = None,
    replay: Annotated[str | None, typer.Option("--replay", metavar="RECORDING", help="Show a recording instead.")] = None,
    speed: Annotated[float, typer.Option("--speed", min=0.1, metavar="X", help="Of the replay.")] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end; of a recording, the last.")] = False,
    wait: Annotated[float, typer.Option("--wait", min=0, metavar="S", help="With --once: look for so long first.")] = 3.0,
) -> None:
    """Watch memory, KV pools and queues of running workers.

    Letters in a device's bar: w weights, k KV pool, g graphs, a adapters, n outside the framework, # other use.
    """
    if replay is not None:
        if target is not None:
            raise OomctlError("both a worker and --replay", "leave one of them out", ExitCode.USAGE)
        _replay(replay, speed, once)
    else:
        _live(target, once, wait)


def _live(target: str | None, once: bool, wait_s: float) -> None:
    import platform
    import time

    from oomctl.analyzers.picture.state import Picture
    from oomctl.collectors.recorder.clock import Clock
    from oomctl.watched import Watched

    clock = Clock()
    picture, watched = Picture(), Watched(target, clock)
    try:

        def step() -> int:
            for row in watched.rows():
                picture.take(row)
            return clock.wall_us()

        title = f"oomctl top  {platform.node()}"
        if once:
            end_s = time.monotonic() + wait_s
            while time.monotonic() < end_s:
                step()
                time.sleep(0.2)
            now_us = step()
            count = max(len(watched), len(picture.shown()))  # one page may be of several
            _print(picture, now_us, f"{title}  {count} worker{'s' * (count != 1)}")
            return
        _show(lambda: (step(), True), picture, title, PERIOD_S)
    finally:
        watched.close()


def _replay(path: str, speed: float, once: bool) -> None:
    from oomctl.analyzers.picture.replay import rows as replayed
    from oomctl.analyzers.picture.state import Picture
    from oomctl.cli.boundary import warn
    from oomctl.pipeline import open_inputs

    loaded = open_inputs([path], warn)
    try:
        rows = replayed(loaded.connection)
        picture = Picture()
        pending = next(rows, None)
        if pending is None:
            raise OomctlError(f"nothing with a time to show ({path})", "give a recording, or a log with times")
        if once:
            while pending is not None:
                picture.take(pending)
                pending = next(rows, None)
            _print(picture, picture.ts, f"oomctl top  {path}")
            return
        at = pending["ts"]

        def step() -> tuple[int, bool]:
            nonlocal pending, at
            at += int(speed * PERIOD_S * 1e6)
            while pending is not None and pending["ts"] <= at:
                picture.take(pending)
                pending = next(rows, None)
            return at, pending is not None

        _show(step, picture, f"oomctl top  {path}  x{speed:g}", PERIOD_S)
    finally:
        loaded.connection.close()


def _print(picture: "Picture", now_us: int, title: str) -> None:
    from oomctl.cli.options import page_width
    from oomctl.cli.render.top import frame

    sys.stdout.write("\n".join(frame(picture, now_us, page_width(), title)) + "\n")


def _show(step: Callable[[], tuple[int, bool]], picture: "Picture", title: str, period_s: float) -> None:
    """Draw again and again, until it is over or somebody presses Ctrl-C."""
    import time
    from datetime import UTC, datetime

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from oomctl.cli.render.top import frame

    console = Console()
    if not console.is_terminal:
        raise OomctlError("no terminal to draw on", "add --once", ExitCode.USAGE)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        more = True
        while more:
            now_us, more = step()
            when = datetime.fromtimestamp(now_us / 1e6, UTC).strftime("%H:%M:%S")
            lines = frame(picture, now_us, console.width, f"{title}  {when} UTC  Ctrl-C ends")
            live.update(Text("\n".join(lines[: console.height])), refresh=True)
            time.sleep(period_s)
