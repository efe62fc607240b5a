"""Exceptions that no wrapped method saw: as the engine logs them, and on its process's way out.

A start can fail anywhere between the methods that are wrapped, and what calls them was on the stack before the agent came.
But an engine that gives up logs the exception, and a child of multiprocessing runs its finalizers while an exception
leaves it. Both are only listened to; neither the exception nor the log is changed.
"""

import logging
import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

from oomctl.collectors.agent import failure, memory
from oomctl.collectors.agent.kinds import FAULT
from oomctl.collectors.agent.layout import pack_texts
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.rings import Rings

ROLES = ("worker", "core")
"""What an engine has in the name of a child process that holds memory; others are none of ours."""
LIMIT = 50
"""Exceptions of the log that are recorded: an engine can log them without end, and live."""


class LastWords:
    """Listens in one process, and in those that are forked from it.

    Args:
        package: The engine's, whose loggers are listened to.
        make_rings: Makes the rings of a role, for a process that fails before it has any.

    Attributes:
        rings: Where to: those that this process made last.
        ready: The start is over: what fails now, others tell of.
    """

    def __init__(self, package: str, make_rings: Callable[[str], Rings]) -> None:
        self._package = package
        self._make_rings = make_rings
        self.rings: Rings | None = None
        self.ready = False
        self._last: str | None = None
        self._left = LIMIT
        self._pid = 0
        self._of_this_process()
        before = logging.getLogRecordFactory()

        def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = before(*args, **kwargs)
            if record.levelno >= logging.ERROR:
                self._logged(record)
            return record

        # A handler would be lost when the engine sets its log up anew, and would silence one that has none.
        logging.setLogRecordFactory(factory)

    def attach(self, rings: Rings) -> None:
        """From now on to these rings."""
        self._of_this_process()
        self.rings = rings

    def heard(self, error: BaseException | None, role: str | None = None, *, fatal: bool) -> None:
        """Record an exception, unless it was recorded already. Never raises.

        Args:
            error: As caught; anything but an Exception is an order to end.
            role: Of this process, where the caller knows it.
            fatal: Whether the engine is known to die of it.
        """
        if not isinstance(error, Exception):
            return
        try:
            self._of_this_process()
            self._last = failure.headline(error)
            ring = self._ring(role)
            if ring is not None and self._left and not failure.is_recorded(error):
                self._left -= 1
                failure.record(ring, error, fatal=fatal)
                memory.write_all(ring)
        except Exception:
            # There may be nobody left to tell.
            return

    def _logged(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == self._package:
            self.heard(record.exc_info[1] if record.exc_info else sys.exception(), fatal=False)

    def _leave(self) -> None:
        """The process ends. An exception is in flight if it ends by one; vLLM's workers have caught and logged it."""
        error = sys.exception()
        if error is None or isinstance(error, Exception):
            self.heard(error, fatal=True)
            ring = None if self.ready or self._last is None else self._ring()
            if ring is not None:
                ring.write(FAULT, pack_texts("engine_dead", f"the start failed: {self._last}"), 1)

    def _ring(self, role: str | None = None) -> Ring | None:
        if self.rings is None:
            name = multiprocessing.current_process().name.lower()
            role = role or next((one for one in ROLES if one in name), None)
            if role is None:
                return None
            self.rings = self._make_rings(role)
        ring = self.rings.mine()
        return ring if ring.active else None

    def _of_this_process(self) -> None:
        """Begin anew in a forked process: multiprocessing forgets the finalizers there too."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self.rings = self._last = None
            self.ready = False
            self._left = LIMIT
            # Before the rings are closed.
            Finalize(None, self._leave, exitpriority=10)
