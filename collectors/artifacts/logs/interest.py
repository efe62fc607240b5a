"""Which lines are worth a look. A large log is some hundred shapes of line, repeated: each shape is judged once.

A shape is a line with its digits and hex letters blotted out, so that addresses, times and request ids do not make a new one.
A line is looked at if its shape holds a text (blotted likewise) that a reader's rule or a failure needs. Blotting both can
only let more lines through, never fewer.
"""

import re

from oomctl.collectors.artifacts.logs import registry

FAILURES: tuple[str, ...] = (
    "Traceback", "ERROR", "WARN", "CRITICAL", "FATAL", "rror", "xception", "emory", "OOM", "illed", "KILL", "exit", "status=",
    "bad_alloc", "alloc fail", "ALLOC_FAILED", "iB", "oom-k", "oom_k", "estart", "died unexp", "signal",
)  # fmt: skip
"""What failures need, whatever the engine: the framework's, the engine's and the system's."""

HEADED = re.compile(rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]|\[20\d\d-\d\d-\d\d|pid=\d+\)|\[[A-Z]{2,3}\d+\]")
"""A line that begins a log record, so that nothing before it can bear on it."""
OPENING = re.compile(rb"[:=]\s*\[?\\*['\"]")
"""A quotation may begin here."""
MAX_BACK = 400
MAX_SHAPES = 200_000
"""Shapes that are remembered; a log with more is not of the kind that this helps with, and starts over."""

_BLOT = bytes(ord("0") if byte in b"0123456789abcdef" else byte for byte in range(256))


class Interest:
    """Remembers the shapes of one stream's lines."""

    def __init__(self) -> None:
        wanted = {text.encode().translate(_BLOT) for text in (*FAILURES, *registry.literals())}
        self._wanted = [text for text in wanted if not any(other != text and other in text for other in wanted)]
        self._dull: set[bytes] = set()
        self._keen: set[bytes] = set()

    def of(self, chunk: bytes) -> list[int]:
        """Indices of the lines of a chunk that are worth a look, as `chunk.split(b"\\n")` counts them."""
        shapes = chunk.translate(_BLOT).split(b"\n")
        if len(self._dull) > MAX_SHAPES:
            self._dull.clear()
        for shape in set(shapes) - self._dull - self._keen:
            found = any(map(shape.__contains__, self._wanted))
            (self._keen if found else self._dull).add(shape)
        keen = self._keen
        return [index for index, shape in enumerate(shapes) if shape in keen]


def context(lines: list[bytes], index: int, limit: int) -> range:
    """The lines that lead up to one, as it may stand inside a quotation.

    From the nearest headed line at or after `limit`; where there is none, from the first that may open a quotation.
    """
    start = opening = index
    while start > limit and index - start < MAX_BACK:
        if HEADED.search(lines[start]) is not None:
            return range(start, index)
        start -= 1
        if OPENING.search(lines[start]) is not None:
            opening = start
    return range(start if start < index and HEADED.search(lines[start]) is not None else opening, index)
