"""The sources of one worker without a recording: what `oomctl top` looks through."""

import platform
from pathlib import Path

from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.settings import Settings
from oomctl.collectors.recorder.sources import Sources

SCRAPE_S = 2.0


def watch(pid: int | None, rings: Path | None, metrics: str | None, visible_devices: str | None, clock: Clock) -> Sources:
    """Sources to gather from.

    Args:
        pid: The worker; None where it runs elsewhere.
        rings: Folder of its rings, or None.
        metrics: Its page, or None.
        visible_devices: Its CUDA_VISIBLE_DEVICES, or None.
        clock: Time.
    """
    settings = Settings(
        root=Path(),
        pid=pid,
        node=platform.node(),
        rings=rings,
        metrics=() if metrics is None else (metrics,),
        scrape_s=SCRAPE_S,
        devices=pid is not None,
        visible_devices=visible_devices,
    )
    return Sources(settings, {}, clock=clock)
