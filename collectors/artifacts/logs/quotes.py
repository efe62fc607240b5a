"""What users wrote is text, not evidence: prompts that a log echoes, also over several raw lines."""

import re

from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.redact import closing_quote

MAX_HELD = 5000

_OPENING = re.compile(
    r"""(?i)\b(?:prompts?|user|content|text|messages?|inputs?|input_text|query|question|body|instruction)['"]?\s*[:=]\s*\[?(['"])"""
)

_BLOCK = re.compile(r"(?i)^\s*(?:prompt|content|user|human|question)\s*:\s*(?:[|>][-+]?\s*$|[^\s'\"])")
"""A chat transcript, or a YAML block: no mark closes it, the next line that says who printed it does."""
_CLOSED = {quote: re.compile(rf"{quote}\)?,\s+\w+\s*[=:]") for quote in "'\""}
"""How a record goes on behind a prompt: `', params: SamplingParams(`."""
_NEVER = "\0"
MAX_HEADED = 40
"""Lines with a header that a prompt may hold, where somebody pasted a log into it, before it counts as cut off."""

_RECORD = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL): ")


_CAPTURED = re.compile(r"^-{3,} Captured (?:stdout|stderr|log) (?:setup|call|teardown) -{3,}$")
_RESULT = re.compile(r"(?:^| )(PASSED|XPASS|SKIPPED|FAILED|ERROR)(?: +\[ *\d{1,3}%\])?$|^={3,} ([A-Za-z ]{4,40}) ={3,}$")
_SECTION = re.compile(r"^(?:[=_]{3,} \S.*\S [=_]{3,}|=+ .* in [\d.]+s.* =+)$")
_FINE = frozenset({"PASSED", "XPASS", "PASSES"})
MARKS = ("Captured std", "Captured log", "PASSED", "= PASSES =", "= FAILURES =", "= ERRORS =", "FAILED")
"""Texts of pytest's lines that matter here."""


class Captured:
    """Follows what pytest prints of a test that passed: whatever its code printed, that was as it should be."""

    def __init__(self) -> None:
        self._fine = False
        self._until = 0
        self.open = False

    def feed(self, record: Record) -> bool:
        """Whether a line is part of it."""
        text = record.text.strip()
        if text[:3] not in ("---", "===", "___") and "::" not in text:
            self.open = self.open and record.line < self._until
            return self.open
        result = _RESULT.search(text)
        if result is not None:
            self._fine = (result[1] or result[2]) in _FINE
        if result is not None or _SECTION.match(text) is not None:
            self.open = False
        elif _CAPTURED.match(text) is not None:
            self.open, self._until = self._fine, record.line + MAX_HELD
        return self.open


class Quotes:
    """Follows quotations that stay open at the end of a line.

    Lines inside are held. If the quotation closes they were text. If lines come that say who printed them and nothing
    closes it, the prompt had been cut off, and the held lines are given back.
    """

    def __init__(self) -> None:
        self._quote: str | None = None
        self._held: list[Record] = []
        self._after: list[Record] = []

    @property
    def open(self) -> bool:
        """Whether a quotation is open."""
        return self._quote is not None

    def feed(self, record: Record) -> tuple[bool, list[Record], list[Record]]:
        """Take a line.

        Returns:
            Whether the line is (at its beginning) inside a quotation; the lines inside one that was cut off, which deserve
            a second look; and the lines after it, held back in case it closed, which are to be read as usual.
        """
        if self._quote is None:
            self._open(record)
            return False, [], []
        begins = record.headed or record.process is not None or _RECORD.match(record.text) is not None
        if self._closes(record, begins):
            self._held.clear()
            self._after.clear()
            self._quote = None
            return True, [], []
        if (begins and self._quote == _NEVER) or len(self._held) >= MAX_HELD or len(self._after) >= MAX_HEADED:
            held, after = self.release()
            self._open(record)
            return False, held, after
        (self._after if begins or self._after else self._held).append(record)
        return True, [], []

    def release(self) -> tuple[list[Record], list[Record]]:
        """The held lines, and those after them, at the end of the log or of a prompt that was cut off."""
        held, after, self._held, self._after, self._quote = self._held, self._after, [], [], None
        return held, after

    def _closes(self, record: Record, begins: bool) -> bool:
        if self._quote is None or self._quote == _NEVER:
            return False
        if begins or self._after:
            return _CLOSED[self._quote].search(record.text) is not None
        return closing_quote(record.text, 0, self._quote) is not None

    def _open(self, record: Record) -> None:
        text = record.text
        if not record.headed and record.process is None and _BLOCK.match(text) is not None:
            self._quote = _NEVER
            return
        if record.serious or ("'" not in text and '"' not in text):
            return
        for match in _OPENING.finditer(text):
            if closing_quote(text, match.end(), match[1]) is None:
                self._quote = match[1]
                return
