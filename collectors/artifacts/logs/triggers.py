"""Which lines are worth a look: a large log is skipped at the speed of `bytes.find`, not read line by line in Python.

A line is looked at if it holds one of the texts that failures and the engines' readers name, or while a traceback or a
quotation is open. A test holds that every literal of every rule contains one of them.
"""

import heapq
import re
from collections.abc import Callable, Iterable

from oomctl.collectors.artifacts.logs import registry

FAILURES: tuple[bytes, ...] = (
    b"Traceback", b"ERROR", b"WARN", b"CRITICAL", b"rror", b"emory", b"OOM", b"illed", b"exit", b"bad_alloc",
    b"iB", b"oom-k", b"estart",
)  # fmt: skip
"""Looked for everywhere, whatever the engine: the framework's, the engine's and the system's failures."""

HEADED = re.compile(rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]|\[20\d\d-\d\d-\d\d|pid=\d+\)|\[[A-Z]{2,3}\d+\]")
"""A line that begins a log record, so that nothing before it can bear on it."""
MAX_BACK = 400
START_CHUNKS = 2
"""Chunks of 1 MiB in which a start may still print its facts: the one that announces it, and the next."""


class Watch:
    """Chooses what to look for, chunk by chunk."""

    def __init__(self, engines: Callable[[], Iterable[str]]) -> None:
        self._engines = engines
        self._starting = START_CHUNKS

    def triggers(self, chunk: bytes) -> "Triggers":
        """The lines worth a look in a chunk."""
        if any(start in chunk for start in registry.STARTS):
            self._starting = START_CHUNKS
        wanted = registry.literals(None if self._starting > 0 else self._engines())
        self._starting -= 1
        return Triggers(chunk, dict.fromkeys((*FAILURES, *wanted)))


class Triggers:
    """Finds the lines worth a look in one chunk of whole lines."""

    def __init__(self, chunk: bytes, literals: Iterable[bytes]) -> None:
        self._chunk = chunk
        self._next: list[tuple[int, bytes]] = []
        for literal in literals:
            found = chunk.find(literal)
            if found >= 0:
                self._next.append((found, literal))
        heapq.heapify(self._next)

    def after(self, position: int) -> int | None:
        """Where the first line from `position` on starts that is to be looked at; None where the rest is not.

        A line without a header of its own is preceded by those that lead up to it: it may stand inside a quotation.
        """
        heap = self._next
        while heap and heap[0][0] < position:
            literal = heap[0][1]
            found = self._chunk.find(literal, position)
            if found < 0:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (found, literal))
        if not heap:
            return None
        return self._record_start(self._chunk.rfind(b"\n", position, heap[0][0]) + 1 or position, position)

    def _record_start(self, start: int, limit: int) -> int:
        """The start of the nearest headed line at or before `start`, not before `limit`; `start` if there is none near."""
        at = start
        for _ in range(MAX_BACK):
            end = self._chunk.find(b"\n", at)
            if HEADED.search(self._chunk, at, end if end >= 0 else len(self._chunk)) is not None:
                return at
            if at <= limit:
                return start if at < limit else at
            at = max(self._chunk.rfind(b"\n", 0, at - 1) + 1, limit)
        return start
