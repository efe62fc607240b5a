"""Reads request traces that others published: the format is told by what a file holds, never by its name."""

from typing import BinaryIO, Protocol

from oomctl.collectors.artifacts.traces.claude_code import ClaudeCodeReader
from oomctl.collectors.artifacts.traces.mooncake import MooncakeReader
from oomctl.collectors.artifacts.traces.tables import TableReader
from oomctl.schemas.trace import Trace

HEAD_BYTES = 4096

__all__ = ["HEAD_BYTES", "TraceReader", "reader_of"]


class TraceReader(Protocol):
    """Takes the files of one trace, one after the other."""

    @staticmethod
    def claims(head: bytes) -> bool:
        """Whether a file that begins so is one of its own.

        Args:
            head: Its first bytes, HEAD_BYTES of them where it has so many.
        """
        ...

    def add(self, stream: BinaryIO, name: str) -> None:
        """Read a file.

        Raises:
            OomctlError: If nothing in it can be read.
        """
        ...

    def finish(self, name: str) -> Trace:
        """The trace of all files that were added."""
        ...


_READERS: tuple[type[TraceReader], ...] = (ClaudeCodeReader, MooncakeReader, TableReader)


def reader_of(head: bytes) -> TraceReader | None:
    """A reader for a file that begins so, or None where it is no trace that is known."""
    return next((reader() for reader in _READERS if reader.claims(head)), None)
