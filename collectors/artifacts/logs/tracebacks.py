"""Tracebacks put together line by line, one per writer, however the ranks interleave.

A traceback opened on a headed line ("... TP5] Scheduler hit an exception: Traceback ...") goes on in headed lines of the same
writer (vLLM repeats its header on each line) or in bare lines (SGLang, Python's logging). Whichever comes, it joins.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from oomctl.collectors.artifacts.logs.record import Record

START = "Traceback (most recent call last):"
MAX_FRAMES = 200
MAX_MESSAGE_LINES = 40
MAX_OPEN = 256

_FRAME = re.compile(r'^\s*File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,300}))?')
_CPP_FRAME = re.compile(r"^\s*(?:frame )?#(\d+): (.{1,500}?)(?: \+ 0x[0-9a-f]+ \((?:0x[0-9a-f]+ in )?(.+?)\))?$")
_MARKS = re.compile(r"^\s*(?:[\^~]+\s*)+$|^\s*\[Previous line repeated \d+ more times?\]$|^\s*\+?-*\+?\s*$")
_EXCEPTION = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(.*))?$", re.DOTALL)
_NAMED = re.compile(r"(?:Error|Exception|Exit|Interrupt|Dead|Died|OutOfMemory|Killed|Timeout|Fault|Failure)\w*$")
_UVICORN = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL): ")
_LINK = re.compile(r"^\s*(?:During handling of the above exception|The above exception was the direct cause)")


@dataclass(frozen=True)
class Frame:
    """A frame as printed; `record` is the line that names it."""

    file: str
    line: int
    function: str
    record: Record
    code: str = ""


@dataclass
class Traceback:
    """A traceback, or a lone exception line without one.

    Attributes:
        first: Its first line.
        frames: Outermost first.
        error_type: Exception type as printed; "" where the log ends before it.
        message: What follows the type, with its continuation lines.
        at: The exception line.
        lines: All its lines.
        linked: Whether it was raised while the previous one of the same writer was handled.
        after: Lines of the message that follow the exception line.
    """

    first: Record
    frames: list[Frame] = field(default_factory=list)
    error_type: str = ""
    message: str = ""
    at: Record | None = None
    lines: list[Record] = field(default_factory=list)
    linked: bool = False
    after: int = 0
    _code_next: bool = False


class Assembler:
    """Puts tracebacks together; feed() takes the lines in order and gives back those that are complete."""

    def __init__(self) -> None:
        self._open: dict[tuple[object, ...], Traceback] = {}
        self._linked: set[tuple[object, ...]] = set()

    @property
    def busy(self) -> bool:
        """Whether a traceback is open."""
        return bool(self._open)

    def feed(self, record: Record) -> tuple[bool, list[Traceback]]:
        """Take a line.

        Returns:
            Whether the line belongs to a traceback, and those that this line completed.
        """
        text = record.text
        if not self._open and START not in text and "exception" not in text:
            return False, []
        keys = self._keys(record)
        if START in text:
            done = list(self._close(keys))
            new = Traceback(record, lines=[record], linked=any(key in self._linked for key in keys))
            self._linked.difference_update(keys)
            if len(self._open) > MAX_OPEN:
                self._open.clear()
            for key in keys:
                self._open[key] = new
            return True, done
        current = next((self._open[key] for key in keys[:1] if key in self._open), None)
        if current is None:
            if _LINK.match(text):
                self._linked.update(keys)
                return True, []
            return False, []
        if current.at is None:
            return self._before_exception(current, record, keys)
        return self._after_exception(current, record, keys)

    def finish(self) -> Iterator[Traceback]:
        """The tracebacks still open when the log ends, once each."""
        yield from self._close(list(self._open))

    def _before_exception(
        self, current: Traceback, record: Record, keys: list[tuple[object, ...]]
    ) -> tuple[bool, list[Traceback]]:
        text = record.text
        frame = _FRAME.match(text)
        if frame is not None:
            if len(current.frames) < MAX_FRAMES:
                current.frames.append(Frame(frame[1], int(frame[2]), (frame[3] or "").strip(), record))
            current._code_next = True
        elif current._code_next and current.frames and not self._ends(text):
            current.frames[-1] = replace(current.frames[-1], code=text.strip()[:500])
            current._code_next = False
        elif not text.strip() or _MARKS.match(text):
            pass
        elif self._ends(text):
            exception = _EXCEPTION.match(text.strip())
            current.error_type = exception[1] if exception is not None else ""
            current.message = (exception[2] or "") if exception is not None else text.strip()
            current.at = record
        elif self._foreign(current, record) or len(current.lines) > MAX_FRAMES * 3:
            return False, list(self._close(keys))
        current.lines.append(record)
        return True, []

    def _after_exception(
        self, current: Traceback, record: Record, keys: list[tuple[object, ...]]
    ) -> tuple[bool, list[Traceback]]:
        """A line after the exception line: more of its message, a link to the next exception, or the end."""
        text = record.text
        if _LINK.match(text):
            done = list(self._close(keys))
            self._linked.update(keys)
            return True, done
        stops = (
            not text.strip() or len(current.lines) > MAX_FRAMES * 3 + MAX_MESSAGE_LINES or self._foreign(current, record)
        )
        if stops:
            return False, list(self._close(keys))
        current.message = f"{current.message}\n{text}"[:8192]
        current.lines.append(record)
        return True, []

    @staticmethod
    def _ends(text: str) -> bool:
        """Whether a line is the exception line: not indented, a dotted name that is named like one or has a message."""
        if not text or text[0].isspace():
            return False
        match = _EXCEPTION.match(text)
        if match is None:
            return False
        return match[2] is not None or _NAMED.search(match[1]) is not None

    @staticmethod
    def _foreign(current: Traceback, record: Record) -> bool:
        """Whether a line is another log record, not the continuation of this traceback."""
        assert current.first is not None
        if not record.headed:
            return _UVICORN.match(record.text) is not None
        return (record.logger, record.level) != (current.first.logger, current.first.level)

    @staticmethod
    def _keys(record: Record) -> list[tuple[object, ...]]:
        """Where the traceback of this line may stand: first its own place, then that of bare continuation lines."""
        own = (*record.writer, record.rank_name if record.headed else None, record.headed)
        bare = (*record.writer, None, False)
        return [own, bare] if record.headed else [bare]

    def _close(self, keys: list[tuple[object, ...]]) -> Iterator[Traceback]:
        seen: list[Traceback] = []
        for key in keys:
            tracked = self._open.pop(key, None)
            if tracked is not None and all(tracked is not other for other in seen):
                seen.append(tracked)
        for tracked in seen:
            for key in [key for key, value in self._open.items() if value is tracked]:
                del self._open[key]
            yield tracked
