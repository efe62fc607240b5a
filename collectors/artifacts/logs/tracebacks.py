"""Tracebacks put together line by line, one per writer, however the ranks interleave.

A traceback opened on a headed line ("... TP5] Scheduler hit an exception: Traceback ...") goes on in headed lines of the
same writer (vLLM repeats its header on each line) or in bare lines (SGLang, Python's logging). Whichever comes, it joins.

One whose first line was lost (a log that begins in its middle, a shipper that drops what is not indented) is known by its
frames, and ends with the first line that is none of its own.

Tracebacks are given back in the order of their exception lines, and soon after these: who fails first stands first.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from oomctl.collectors.artifacts.logs.record import Record

START = "Traceback (most recent call last):"
OPENING = ("Traceback", "exception", "ray::", ", line ")
MAX_FRAMES = 200
"""Frames that are kept: the outermost and the innermost."""
MAX_MESSAGE_LINES = 40
MAX_OPEN = 256
MAX_WAIT = 64
"""Lines of others that may stand between two lines of a message; several ranks may print theirs at once."""
MAX_GAP = 1000
"""Lines of others that may stand between two lines of a traceback before its exception line."""

_FRAME = re.compile(r'^\s*(?:File )?\\?"([^"]{1,1000}?)\\?", line (\d{1,9})(?:, in (.{1,300}))?')
"""Older TGI launchers print what a shard wrote as a quoted text, line by line: the quotes in it are escaped. Loggers that
wrap at the terminal's width, such as TabbyAPI's, break behind the first word."""
_RAY = re.compile(r"ray::[\w.]{1,200}\(\) \(pid=\d{1,10}")
"""Ray prints the frames of a task below its name, without Python's own first line."""
_BOX = re.compile(r"^\W{0,4}[\u2500\u256d+-]{4,} Traceback \(most recent call last\)")
_BOX_FRAME = re.compile(r"^\s*[\u2502|] (/\S{1,1000}):(\d{1,9}) in (\S{1,300})")
_BOX_PART = re.compile(r"^\s*[\u2502\u2570|]")
"""rich draws a frame around tracebacks: typer's programs, such as TGI's shards, print them so."""
_NOTEBOOK = re.compile(r"^[A-Za-z_][\w.]{0,200} {2,}Traceback \(most recent call last\)$")
_CELL_FRAME = re.compile(
    r"^(?:File )?([~/\w<][^\s:(]{0,1000}\.\w{1,8}|<ipython-input-[\w-]{1,80}>)(?::(\d{1,9}),)? in ([\w.<>]{1,300})(?:\(|$)"
)
_CELL_CODE = re.compile(r"^-{1,8}> ?(\d{1,9}) (.*)$")
"""IPython names the type first, then each frame's file and function, and points at the line among its neighbours."""
_MARKS = re.compile(r"^\s*[\^~][\^~\s]*$|^\s*\[Previous line repeated \d+ more times?\]$|^\s*\+?-*\+?\s*$")
_EXCEPTION = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(.*))?$", re.DOTALL)
_NAMED = re.compile(r"(?:Error|Exception|Exit|Interrupt|Dead|Died|OutOfMemory|Timeout|Fault|Failure)\w*$")
_OTHERS = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL): |(?:\S+: line \d+: +\d+ )?(?:Killed\b|Aborted(?: +\(core dumped\)|$))"
    r"|\|={20}|Error: [A-Z]\w{1,60}(?:[({]|$)"
)
"""Bare lines that no exception's message holds: uvicorn's, the shell's word on a kill, a table of PyTorch's, the
result of a program in Rust."""
_ENDS = re.compile(r"(?:EngineCore|WorkerProc|Engine process) failed to start\b")
"""What an engine says of itself behind the message, perhaps under the same header."""
_LINK = re.compile(r"^\s*(?:During handling of the above exception|The above exception was the direct cause)")


def introduces(text: str) -> bool:
    """Whether a line says something of its own before a traceback begins in it."""
    return text.find(START) > 0


@dataclass(frozen=True)
class Frame:
    """A frame as printed; `record` is the line that names it."""

    file: str
    line: int
    function: str
    record: Record
    code: str = ""


@dataclass(eq=False)
class Traceback:
    """A traceback.

    Attributes:
        first: Its first line.
        last: Number of its latest line.
        frames: Outermost first, at most MAX_FRAMES.
        error_type: Exception type as printed; "" where the log ends before it.
        message: What follows the type, with its continuation lines.
        at: The exception line.
        notebook: Whether IPython prints it.
        headless: Whether its first line was lost.
        after: Lines of the message that follow the exception line.
    """

    first: Record
    last: int
    frames: list[Frame] = field(default_factory=list)
    error_type: str = ""
    message: str = ""
    at: Record | None = None
    after: int = 0
    notebook: bool = False
    headless: bool = False
    _code_next: bool = False


class Assembler:
    """Puts tracebacks together; feed() takes the lines in order and gives back those that are complete."""

    def __init__(self) -> None:
        self._open: dict[tuple[object, ...], Traceback] = {}

    @property
    def busy(self) -> bool:
        """Whether a traceback is open."""
        return bool(self._open)

    @property
    def first(self) -> int | None:
        """Number of the first line of those that are open, or None."""
        return next(iter(self._open.values())).first.line if self._open else None

    def feed(self, record: Record, *, headless: bool = True) -> tuple[bool, list[Traceback]]:
        """Take a line.

        Args:
            record: The line.
            headless: Whether a frame may open a traceback whose first line was lost.

        Returns:
            Whether the line belongs to a traceback, and those that this line completed.
        """
        text = record.text
        if not self._open and not any(word in text for word in OPENING):
            return False, []
        done = self._overdue(record.line) if self._open else []
        keys = self._keys(record)
        if self._starts(text):
            done += self._close([self._open[key] for key in keys if key in self._open])
            done += self._begin(keys, Traceback(record, record.line, notebook=_NOTEBOOK.match(text) is not None))
            return True, done
        current = self._open.get(keys[0])
        if current is None and headless and (frame := _FRAME.match(text)) is not None and frame[3] and "File" in frame[0]:
            current = Traceback(record, record.line, headless=True)
            done += self._begin(keys, current)
        if current is None:
            return _LINK.match(text) is not None, done
        mine = self._before_exception(current, record) if current.at is None else self._after_exception(current, record)
        if not mine:
            done += self._close([current])
        current.last = record.line
        return mine or _LINK.match(text) is not None, done

    def _begin(self, keys: list[tuple[object, ...]], opened: Traceback) -> list[Traceback]:
        """Open one; those that must be closed for it."""
        done = self._close([next(iter(self._open.values()))]) if len(self._open) > MAX_OPEN else []
        self._open.update(dict.fromkeys(keys, opened))
        return done

    def finish(self) -> list[Traceback]:
        """The tracebacks still open when the log ends, or when a worker starts anew."""
        return self._close(self._open.values())

    def _before_exception(self, current: Traceback, record: Record) -> bool:
        """Take a frame, its code, or the exception line; False where the line is none of these."""
        text = record.text
        frame = _FRAME.match(text) or _BOX_FRAME.match(text)
        cell = _CELL_FRAME.match(text) if frame is None and current.notebook else None
        if cell is not None:
            function = cell[3].rpartition(".")[2]
            current.frames = [*current.frames, Frame(cell[1], int(cell[2] or 0), function, record)][-MAX_FRAMES:]
        elif current.notebook and (pointed := _CELL_CODE.match(text)) is not None:
            if current.frames:
                current.frames[-1] = replace(current.frames[-1], line=int(pointed[1]), code=pointed[2].strip()[:500])
        elif frame is not None:
            if len(current.frames) == MAX_FRAMES:
                del current.frames[MAX_FRAMES // 2]
            current.frames.append(Frame(frame[1], int(frame[2]), (frame[3] or "").strip(), record))
            current._code_next = True
        elif current._code_next and self._is_code(text, current.frames[-1]):
            current.frames[-1] = replace(current.frames[-1], code=text.strip()[:500])
            current._code_next = False
        elif not text.strip() or _MARKS.match(text) or _BOX_PART.match(text):
            current._code_next = False
        elif self._ends(text) and (not current.headless or _NAMED.search(text.partition(":")[0]) is not None):
            exception = _EXCEPTION.match(text.strip())
            current.error_type = exception[1] if exception is not None else ""
            current.message = (exception[2] or "") if exception is not None else text.strip()
            current.at = record
        else:
            return not current.headless and not self._foreign(current, record)
        return True

    def _after_exception(self, current: Traceback, record: Record) -> bool:
        """Take a line of the exception's message; False where the message has ended."""
        text = record.text
        current.after += 1
        if not text.strip() or current.after > MAX_MESSAGE_LINES or _LINK.match(text) or self._foreign(current, record):
            return False
        current.message = f"{current.message}\n{text}"[:8192]
        return True

    @staticmethod
    def _starts(text: str) -> bool:
        if START in text:
            return True
        if "Traceback" in text and (_BOX.match(text) is not None or _NOTEBOOK.match(text) is not None):
            return True
        return "ray::" in text and _RAY.search(text) is not None

    @staticmethod
    def _ends(text: str) -> bool:
        """Whether a line is the exception line: not indented, a dotted name that is named like one or has a message."""
        if not text or text[0].isspace():
            return False
        match = _EXCEPTION.match(text)
        if match is None:
            return False
        return match[2] is not None or _NAMED.search(match[1]) is not None

    @classmethod
    def _is_code(cls, text: str, frame: Frame) -> bool:
        """Whether the line after a frame's is its source, which looks like `name: message` in a log without indentation."""
        if not cls._ends(text):
            return True
        name = text.partition(":")[0]
        return not frame.record.text[:1].isspace() and _NAMED.search(name) is None

    @staticmethod
    def _foreign(current: Traceback, record: Record) -> bool:
        """Whether a line is another log record, not the continuation of this traceback."""
        if not record.headed:
            return _OTHERS.match(record.text) is not None
        if current.at is not None and _ENDS.match(record.text) is not None:
            return True
        if current.frames and not current.frames[-1].record.headed:
            return True  # it was printed in one piece
        return (record.logger, record.level) != (current.first.logger, current.first.level)

    @staticmethod
    def _keys(record: Record) -> list[tuple[object, ...]]:
        """Where the traceback of this line may stand: first its own place, then that of bare continuation lines."""
        own = (*record.writer, record.rank_name if record.headed else None, record.headed)
        bare = (*record.writer, None, False)
        return [own, bare] if record.headed else [bare]

    def _overdue(self, line: int) -> list[Traceback]:
        """Those that have waited too long for another line."""
        waiting = [
            traceback
            for traceback in self._open.values()
            if line - traceback.last > (MAX_GAP if traceback.at is None else MAX_WAIT)
        ]
        return self._close(waiting) if waiting else []

    def _close(self, closing: Iterable[Traceback]) -> list[Traceback]:
        """Close some, and with them those whose exception line stands before theirs."""
        chosen = set(closing)
        until = max((traceback.at.line for traceback in chosen if traceback.at is not None), default=0)
        chosen |= {traceback for traceback in self._open.values() if traceback.at is not None and traceback.at.line < until}
        self._open = {key: traceback for key, traceback in self._open.items() if traceback not in chosen}
        return sorted(chosen, key=lambda traceback: traceback.at.line if traceback.at is not None else traceback.first.line)
