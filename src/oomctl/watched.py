"""Whom `oomctl top` shows: one that was named, or all workers of this node, those that come later too."""

from collections.abc import Iterator
from typing import Any

from oomctl.collectors.agent.process import start_ticks
from oomctl.collectors.live.discover.workers import workers
from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.watching import Watching
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.rows import Row
from oomctl.targets import Target, find, of_worker

LOOK_S = 10.0
"""Between two looks for workers: one that is started again is another process, and one that loads has no page yet."""


class Watched:
    """Looks at one worker, or at all.

    Args:
        word: As `targets.find` takes it; None for all of this node.
        clock: Time.

    Raises:
        OomctlError: If there is nobody to watch.
    """

    def __init__(self, word: str | None, clock: Clock) -> None:
        self._clock = clock
        self._all = word is None
        self._watching: dict[Any, tuple[Target, Watching]] = {}
        self._look_s = clock.monotonic_s() + LOOK_S
        if word is not None:
            target = find(word)
            if target.pid is not None and not start_ticks(target.pid):
                raise OomctlError(f"no such process ({target.pid})", "`oomctl attach` lists the workers", ExitCode.USAGE)
            self._watch(target)
        else:
            self._look()
        if not self._watching:
            hint = "give the URL of its metrics, or --replay"
            raise OomctlError("no worker of an engine runs here", hint, ExitCode.USAGE)

    def __len__(self) -> int:
        return len(self._watching)

    def rows(self) -> Iterator[Row]:
        """What came of all of them since the last call."""
        if self._all and self._clock.monotonic_s() >= self._look_s:
            self._look_s = self._clock.monotonic_s() + LOOK_S
            self._look()
        for _, watching in self._watching.values():
            yield from watching.rows()

    def close(self) -> None:
        """Let go of all."""
        for _, watching in self._watching.values():
            watching.close()
        self._watching.clear()

    def _look(self) -> None:
        here = {worker.pid: worker for worker in workers() if not worker.orphan}
        for pid in self._watching.keys() - here.keys():
            self._watching.pop(pid)[1].close()
        for pid, worker in here.items():
            target = self._watching[pid][0] if pid in self._watching else None
            if target is None or target.metrics is None:
                self._watch(of_worker(worker))

    def _watch(self, target: Target) -> None:
        known = self._watching.get(target.pid)
        if known is not None:
            if known[0] == target:
                return
            known[1].close()
        made = Watching(target.pid, target.rings, target.metrics, target.visible_devices, self._clock)
        self._watching[target.pid] = target, made
