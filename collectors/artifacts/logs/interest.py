"""Which lines are worth a look: those that hold a text that a reader's rule or a failure needs.

That can only let more lines through than tell anything, never fewer.
"""

import re
from functools import cache

from oomctl.collectors.artifacts.logs import quotes, registry, system

FAILURES: tuple[str, ...] = (
    "Traceback", ", line ", "ERROR", "WARN", "CRITICAL", "FATAL", "rror", "xception", "alloc fail", "ALLOC_FAILED", "rrno",
    "mmap", "NVML_SUCCESS", "ray::", *quotes.MARKS, *system.LITERALS,
)  # fmt: skip
"""What failures need, whatever the engine: the framework's, the engine's and the system's."""
ENVELOPES: tuple[str, ...] = (
    'MESSAGE":[',
    'MESSAGE" : [',
    'MESSAGE": [',
    "stdout P ",
    "stderr P ",
    'logtag":"P"',
    "partial_message",
)
"""Lines whose text cannot be seen: a journal's array of bytes, and a line of which a runtime wrote only a part."""
_ESCAPES = ('"', '\\"', '\\\\\\"')
"""How a quotation mark stands in an object, in an object in an object, and once more."""

HEADED = re.compile(rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]|\[20\d\d-\d\d-\d\d|pid=\d+\)|\[[A-Z]{2,3}\d+\]")
"""A line that begins a log record, so that nothing before it can bear on it."""
OPENING = re.compile(rb"[:=]\s*\[?\\*['\"]|^\s*(?:prompt|content|user|human|question)\s*:", re.IGNORECASE)
"""A quotation may begin here."""
_FAILURE = re.compile(rb"Traceback|[Oo]ut ?[Oo]f ?[Mm]emory|EngineCore (?:failed|encountered)")
MAX_PASTED = 40
"""Lines above a failure in which a prompt may have opened that holds it."""
MAX_BACK = 400
SMALL_BYTES = 256 * 1024
"""A smaller piece is looked through before pyarrow would be imported."""


@cache
def wanted() -> tuple[str, ...]:
    """The texts of which a line of interest holds one; none holds another."""
    hidden = [text.replace('"', mark) for text in ENVELOPES for mark in _ESCAPES]
    texts = {*FAILURES, *hidden, *registry.literals()}
    return tuple(sorted(text for text in texts if not any(other != text and other in text for other in texts)))


def of_interest(chunk: bytes) -> list[int]:
    """Indices of the lines of a chunk that are worth a look, as `chunk.split(b"\\n")` counts them."""
    if len(chunk) < SMALL_BYTES:
        return by_text(chunk)
    return by_automaton(chunk)


def by_text(chunk: bytes) -> list[int]:
    """As `of_interest`, text by text."""
    texts = [text.encode() for text in wanted()]
    return [index for index, line in enumerate(chunk.split(b"\n")) if any(map(line.__contains__, texts))]


def by_automaton(chunk: bytes) -> list[int]:
    """As `of_interest`, by RE2, which looks for all texts at once: linear, whatever the lines hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lines = pc.split_pattern(pa.array([chunk], pa.binary()), "\n").flatten()
    found: list[int] = pc.indices_nonzero(pc.match_substring_regex(lines, _alternation())).to_pylist()
    return found


@cache
def _alternation() -> str:
    return "|".join(map(re.escape, wanted()))


def context(lines: list[bytes], index: int, limit: int) -> range:
    """The lines that lead up to one, as it may stand inside a quotation.

    From the nearest headed line at or after `limit`; where there is none, from the first that may open a quotation. A line
    that names a failure may have been pasted, header and all, into a prompt: then from the line that opens it.
    """
    if limit == index:
        return range(index, index)
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
