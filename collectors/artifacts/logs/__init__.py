"""Engine logs: from the text that an engine printed to rows of the event table.

A line goes through source (bytes to numbered lines), lines (envelope, prefix, header), quotes (what users wrote),
tracebacks, the engines' own readers (registry lists them), failures and system, and becomes rows in emitter.
"""

from collections.abc import Callable
from typing import BinaryIO

from oomctl.collectors.artifacts.logs.reader import LogReading


def read_log(file: BinaryIO, stream: str, repetitive: Callable[[], bool] = lambda: False) -> LogReading:
    """Read a log.

    Args:
        file: Its bytes.
        stream: What rows call it: usually its path.
        repetitive: Whether what comes out of an archive now is nothing but repetition, whose copies are counted only.

    Returns:
        The reading; its `rows` must be iterated to the end before its counts are complete.
    """
    return LogReading(file, stream, repetitive)


__all__ = ["LogReading", "read_log"]
