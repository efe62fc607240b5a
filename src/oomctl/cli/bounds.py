"""How long a user's SQL may run, and how much memory it may take.

DuckDB keeps to its own memory limit in what it sorts and joins, and can be interrupted between two batches of rows. One
function call that makes a text of gigabytes does neither: so the process itself is bounded too, and ended if need be.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from oomctl.schemas.errors import ExitCode

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GRACE_S = 5.0
"""From the interruption on; who does not hear it is ended."""
MEMORY_BYTES = 1 << 30
"""What the process may take beyond what it has when the statement begins."""


class Stopwatch:
    """Counts the time that DuckDB takes for a statement; what a reader takes who pages through its rows is their own.

    Args:
        connection: Is interrupted when the time is over.
        seconds: None for as long as it takes.
    """

    def __init__(self, connection: "DuckDBPyConnection", seconds: float | None) -> None:
        self._connection = connection
        self._seconds = seconds
        self._left_s = seconds or 0.0

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Count what runs inside."""
        if self._seconds is None:
            yield
            return
        wait_s = max(self._left_s, 0.001)
        interruption = threading.Timer(wait_s, self._connection.interrupt)
        end = threading.Timer(wait_s + GRACE_S, _end, [self._seconds])
        begun_s = time.monotonic()
        try:
            for timer in (interruption, end):
                timer.daemon = True
                timer.start()
            yield
        finally:
            interruption.cancel()
            end.cancel()
            self._left_s -= time.monotonic() - begun_s


def too_long(seconds: float) -> str:
    """What is told of a statement that was stopped."""
    return f"SQL: stopped after {seconds:g} s"


def _end(seconds: float) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"oomctl: error: {too_long(seconds)}\nhint: select less, or allow more with --timeout SECONDS\n")
        sys.stderr.flush()
    os._exit(ExitCode.ENVIRONMENT)


@contextmanager
def bounded_memory(more_bytes: int = MEMORY_BYTES) -> Iterator[None]:
    """Limit the process's private memory, where the system can: an allocation beyond fails, and nothing swaps.

    Args:
        more_bytes: What it may take beyond what it has.
    """
    used = _data_bytes()
    try:
        import resource
    except ImportError:  # no such limit there
        used = None
    if used is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = min([used + more_bytes, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """What RLIMIT_DATA counts (Linux, since 4.7: private writable mappings); None where /proc does not tell."""
    with suppress(OSError, ValueError, IndexError):
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return None
