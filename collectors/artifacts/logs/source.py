"""Raw lines of a log: numbered by \\n alone, split at carriage returns, decoded without loss of a line."""

from collections.abc import Callable, Generator, Iterator
from typing import BinaryIO

from oomctl.collectors.artifacts.logs.interest import MAX_BACK, context, of_interest

SNIFF_BYTES = 8192
MAX_LINE_BYTES = 1 << 20
"""A longer line is cut for matching; its number stays right."""
CHUNK_BYTES = 1 << 20
MAX_BLANK_BYTES = 256 << 20
MAX_ALIKE = 3
"""So often a line is looked at that repeats itself in an archive full of repetitions; a traceback needs its second copy."""
MAX_KNOWN = 1 << 18
"""Lines that are remembered there."""
_BLANK = b"\r\n\t \0"


class RawLines:
    """The lines of a binary stream, which may still grow: like Python's raw files, its `read` gives None for "nothing now".

    Args:
        file: The stream.
        repetitive: Tells whether it comes out of an archive that expands so far that its lines must be copies.

    Attributes:
        bytes: Read so far.
        lines: Read so far; a last line without \\n counts.
        cut: Lines longer than MAX_LINE_BYTES.
        alike: Lines that were counted and not looked at, because they repeat others.
        problem: Why nothing can be read ("empty file", "not a text log"), else None.
    """

    def __init__(self, file: BinaryIO, repetitive: Callable[[], bool] = lambda: False) -> None:
        self._file = file
        self._repetitive = repetitive
        self._known: dict[int, int] = {}
        self._passed: list[bytes] = []
        self.bytes = 0
        self.lines = 0
        self.cut = 0
        self.alike = 0
        self.problem: str | None = None

    def lines_of_interest(self, attentive: Callable[[], bool]) -> Iterator[tuple[int, str] | None]:
        """(line number, text without its line ending) of each line worth a look; \\r inside stays. None: nothing now.

        Args:
            attentive: Asked after each line whether the next one is wanted whatever it holds.
        """
        head = yield from self._head()
        if head is None:
            return
        pending = head
        while True:
            whole, newline, pending = pending.rpartition(b"\n")
            if newline:
                yield from self._chunk(whole + newline, attentive)
            if len(pending) > MAX_LINE_BYTES:
                pending = yield from self._long_line(pending)
                continue
            chunk = yield from self._read(CHUNK_BYTES)
            if not chunk:
                break
            self.bytes += len(chunk)
            pending += chunk
        if pending:
            yield from self._chunk(pending, attentive)

    def _read(self, size: int) -> Generator[None, None, bytes]:
        """The next bytes, empty at the end; yields while there are none yet."""
        while (chunk := self._file.read(size)) is None:
            yield None
        return chunk

    def _head(self) -> Generator[None, None, bytes | None]:
        """The first bytes, back to the first line that is not blank, or None with `problem` set."""
        head = yield from self._read(SNIFF_BYTES)
        while not head.strip(_BLANK):
            more = yield from self._read(CHUNK_BYTES)
            if not more:
                self.problem = "empty file"
                return None
            blank, newline, head = head.rpartition(b"\n")
            self.lines += blank.count(b"\n") + len(newline)
            # White space before a line's text tells nothing: what is not kept cannot grow without end.
            self.bytes += len(blank) + len(newline) + len(head[:-SNIFF_BYTES])
            head = head[-SNIFF_BYTES:] + more
            if self.bytes > MAX_BLANK_BYTES:
                self.problem = "no text in the first 256 MiB"
                return None
        # A log that was truncated while its writer went on begins with a hole.
        if looks_binary(head.lstrip(b"\0")):
            self.problem = "not a text log"
            return None
        self.bytes += len(head)
        return head

    def _chunk(self, chunk: bytes, attentive: Callable[[], bool]) -> Iterator[tuple[int, str]]:
        """The lines of interest of whole lines (the last may lack its \\n)."""
        fresh = chunk.split(b"\n")
        if not fresh[-1]:
            fresh.pop()
        # What led up to a line may stand in the chunk before.
        shift, done = len(self._passed), 0
        lines = self._passed + fresh
        before = self.lines - shift
        self.lines += len(fresh)
        for hit in [*(shift + index for index in of_interest(chunk)), len(lines)]:
            while done < hit and attentive():
                if self._is_new(lines[done]):
                    yield before + done + 1, self._decode(lines[done])
                done += 1
            if hit < done or hit == len(lines):
                continue
            if not self._is_new(lines[hit]):
                done = hit + 1
                continue
            for index in (*context(lines, hit, done), hit):
                yield before + index + 1, self._decode(lines[index])
            done = hit + 1
        self._passed = lines[max(done, len(lines) - MAX_BACK) :]

    def _long_line(self, start: bytes) -> Generator[tuple[int, str] | None, None, bytes]:
        """Skip to the end of an over-long line without keeping it; returns what follows it."""
        self.cut += 1
        self._passed = []
        kept, rest = start[:MAX_LINE_BYTES], start[MAX_LINE_BYTES:]
        while b"\n" not in rest:
            chunk = yield from self._read(CHUNK_BYTES)
            if not chunk:
                rest = b""
                break
            self.bytes += len(chunk)
            rest = chunk
        self.lines += 1
        yield self.lines, self._decode(kept)
        return rest.partition(b"\n")[2]

    def _is_new(self, line: bytes) -> bool:
        """Whether to look at a line: not at copies without end, whose like costs an archive nothing."""
        if not self._repetitive():
            return True
        key = hash(line)
        count = self._known.get(key, 0)
        if count == MAX_ALIKE:
            self.alike += 1
            return False
        if count or len(self._known) < MAX_KNOWN:
            self._known[key] = count + 1
        return True

    @staticmethod
    def _decode(line: bytes) -> str:
        return line.decode("utf-8", "replace").rstrip("\r")


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes are no text: many control characters, or hardly any valid UTF-8."""
    sample = head[:SNIFF_BYTES]
    control = sum(1 for byte in sample if byte < 32 and byte not in (9, 10, 13, 27, 8, 12))
    if control > max(len(sample) // 20, 2):
        return True
    decoded = sample.decode("utf-8", "replace")
    return decoded.count("�") > max(len(decoded) // 5, 3)
