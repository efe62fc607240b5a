"""Which lines are worth a look: each shape of line is judged once.

A line is looked at if its shape holds the shape of a text that a reader's rule or a failure needs. That can only let more
lines through, never fewer.
"""

import re

from oomctl.collectors.artifacts.logs import registry
from oomctl.collectors.artifacts.logs.shapes import blot

FAILURES: tuple[str, ...] = (
    "Traceback", "ERROR", "WARN", "CRITICAL", "FATAL", "rror", "xception", "emory", "OOM", "illed", "KILL", "xit",
    "status=", "eturned", "bad_alloc", "alloc fail", "ALLOC_FAILED", "iB", "oom-k", "oom_k", "estart", "died unexp",
    "signal", "ENOMEM", "rrno", "mmap", "NVML_SUCCESS",
)  # fmt: skip
"""What failures need, whatever the engine: the framework's, the engine's and the system's."""

HEADED = re.compile(rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]|\[20\d\d-\d\d-\d\d|pid=\d+\)|\[[A-Z]{2,3}\d+\]")
"""A line that begins a log record, so that nothing before it can bear on it."""
OPENING = re.compile(rb"[:=]\s*\[?\\*['\"]|^\s*(?:prompt|content|user|human|question)\s*:", re.IGNORECASE)
"""A quotation may begin here."""
_FAILURE = re.compile(rb"Traceback|[Oo]ut ?[Oo]f ?[Mm]emory|EngineCore (?:failed|encountered)")
MAX_PASTED = 40
"""Lines above a failure in which a prompt may have opened that holds it."""
MAX_BACK = 400
MAX_REMEMBERED_BYTES = 64 << 20
"""Of shapes; a log with more is not of the kind that this helps with, and starts over."""


class Interest:
    """Remembers the shapes of one stream's lines.

    Args:
        remembered_bytes: How many bytes of them.
    """

    def __init__(self, remembered_bytes: int = MAX_REMEMBERED_BYTES) -> None:
        self._limit = remembered_bytes
        wanted = {blot(text.encode()) for text in (*FAILURES, *registry.literals())}
        self._wanted = [text for text in wanted if not any(other != text and other in text for other in wanted)]
        self._dull: set[bytes] = set()
        self._keen: set[bytes] = set()
        self._remembered = 0

    def of(self, chunk: bytes) -> list[int]:
        """Indices of the lines of a chunk that are worth a look, as `chunk.split(b"\\n")` counts them."""
        shapes = blot(chunk).split(b"\n")
        if self._remembered > self._limit:
            self._dull.clear()
            self._keen.clear()
            self._remembered = 0
        for shape in set(shapes) - self._dull - self._keen:
            found = any(map(shape.__contains__, self._wanted))
            (self._keen if found else self._dull).add(shape)
            self._remembered += len(shape)
        keen = self._keen
        return [index for index, shape in enumerate(shapes) if shape in keen]


def context(lines: list[bytes], index: int, limit: int) -> range:
    """The lines that lead up to one, as it may stand inside a quotation.

    From the nearest headed line at or after `limit`; where there is none, from the first that may open a quotation. A line
    that names a failure may have been pasted, header and all, into a prompt: then from the line that opens it.
    """
    if _FAILURE.search(lines[index]) is not None:
        for start in range(max(limit, index - MAX_PASTED), index):
            if OPENING.search(lines[start]) is not None:
                return range(start, index)
    start = opening = index
    while start > limit and index - start < MAX_BACK:
        if HEADED.search(lines[start]) is not None:
            return range(start, index)
        start -= 1
        if OPENING.search(lines[start]) is not None:
            opening = start
    return range(start if start < index and HEADED.search(lines[start]) is not None else opening, index)
