"""What is known of lines, put into the order of the lines before it becomes rows.

A traceback is understood at its end, and lines of others may stand before that. What these tell waits for it, so that the
sequence numbers of a stream's rows, given afterwards, follow its lines.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.record import Record

MAX_WAITING = 10_000
"""Beyond that many, the first goes on without waiting longer: only a log made for it holds so many back."""

Told = tuple[Record, list[Fact], str | None]
"""A line, what it tells, and whose it is."""


class Order:
    """Lines that wait for an earlier one."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Told]] = []
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, told: Told) -> None:
        """Take a line; those of one number stay in the order in which they came."""
        self._count += 1
        heappush(self._waiting, (told[0].line, self._count, told))

    def before(self, line: int | None) -> Iterator[Told]:
        """What stands before a line, in order; all of it for None."""
        waiting = self._waiting
        while waiting and (line is None or waiting[0][0] < line or len(waiting) > MAX_WAITING):
            yield heappop(waiting)[2]
