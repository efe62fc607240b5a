"""The sources of one worker without a recording: what `oomctl top` looks through."""

import platform
from collections.abc import Iterator
from pathlib import Path

from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.own import OwnRows
from oomctl.collectors.recorder.settings import Settings
from oomctl.collectors.recorder.sources import Sources
from oomctl.schemas.rows import Row

SCRAPE_S = 2.0


class Watching:
    """Looks at one worker, and keeps nothing.

    Args:
        pid: The worker; None where it runs elsewhere.
        rings: Folder of its rings, or None.
        metrics: Its page, or None.
        visible_devices: Its CUDA_VISIBLE_DEVICES, or None.
        clock: Time.
    """

    def __init__(
        self, pid: int | None, rings: Path | None, metrics: str | None, visible_devices: str | None, clock: Clock
    ) -> None:
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
        self._clock = clock
        self._sources = Sources(settings, {}, clock=clock)
        self._own = OwnRows(self._sources.common)

    def rows(self) -> Iterator[Row]:
        """What came since the last call, and how the sources are."""
        more = True
        while more:
            now_us = self._clock.wall_us()
            gathered = self._sources.gather(now_us)
            more = gathered.more
            yield from gathered.all_rows()
            yield from (self._own.told(now_us, note) for note in gathered.notes)

    def close(self) -> None:
        """Let go of all sources."""
        self._sources.close()
