"""What the recorder does from time to time: ends segments, packs hours, keeps the budget, removes what the dead left."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.jobs import Jobs
from oomctl.collectors.recorder.leftovers import Leftovers
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.settings import Settings
from oomctl.collectors.recorder.store import Store

PACK_S = 3600.0
PACK_SEGMENTS = 8
"""So many segments are packed before their hour is over."""


class Upkeep:
    """The recorder's housekeeping.

    Args:
        settings: How much is kept.
        clock: Time.
        store: Where the segments are written.
        jobs: Who packs.
        leftovers: Rings that were read to their end.
        told: Called with a task and what became of it.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        store: Store,
        jobs: Jobs,
        leftovers: Leftovers,
        told: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._store = store
        self._jobs = jobs
        self._leftovers = leftovers
        self._told = told
        self._segments = 0
        self._pack_s = clock.monotonic_s() + PACK_S
        self._forgotten: State = {}

    def round(self) -> None:
        """Do what is due."""
        self._segments += self._store.upkeep()
        self.clear()
        now_s = self._clock.monotonic_s()
        if (now_s >= self._pack_s or self._segments >= PACK_SEGMENTS) and not self._jobs.busy:
            self._pack_s, self._segments = now_s + PACK_S, 0
            root, budget = str(self._settings.root), str(self._settings.budget_bytes)
            oldest_us = str(self._clock.wall_us() - int(self._settings.age_s * 1e6))
            self._jobs.add("pack", root, then=lambda done: self._told("packing", done))
            self._jobs.add("evict", root, budget, oldest_us, then=lambda done: self._told("keeping the budget", done))

    def clear(self) -> None:
        """Remove the rings of the dead, once their rows are on the disk."""
        if not self._leftovers or self._settings.keep_rings or self._store.held is not None:
            return
        try:
            self._store.sync()
        except OSError:
            return  # the rings are all the safer
        self._forgotten |= self._leftovers.remove(self._told)

    def at(self) -> State:
        """What need not be known any more of rings that are gone."""
        forgotten, self._forgotten = self._forgotten, {}
        return forgotten
