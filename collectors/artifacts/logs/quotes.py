"""What users wrote is text, not evidence: prompts that a log echoes, also over several raw lines."""

import re

from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.redact import closing_quote

MAX_HELD = 5000

_OPENING = re.compile(
    r"""(?i)\b(?:prompts?|user|content|text|messages?|inputs?|input_text|query|question|body|instruction)['"]?\s*[:=]\s*\[?(['"])"""
)

_RECORD = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL): ")


class Quotes:
    """Follows quotations that stay open at the end of a line.

    Lines inside are held. If the quotation closes they were text. If a line comes first that says who printed it, the
    prompt had been cut off, and the held lines are given back for a second look.
    """

    def __init__(self) -> None:
        self._quote: str | None = None
        self._held: list[Record] = []

    @property
    def open(self) -> bool:
        """Whether a quotation is open."""
        return self._quote is not None

    def feed(self, record: Record) -> tuple[bool, list[Record]]:
        """Take a line.

        Returns:
            Whether the line is (at its beginning) inside a quotation, and held lines that turned out not to be.
        """
        if self._quote is None:
            self._open(record)
            return False, []
        begins = record.headed or record.process is not None or _RECORD.match(record.text) is not None
        if begins or len(self._held) >= MAX_HELD:
            released = self.release()
            self._open(record)
            return False, released
        if closing_quote(record.text, 0, self._quote) is not None:
            self._held.clear()
            self._quote = None
            return True, []
        self._held.append(record)
        return True, []

    def release(self) -> list[Record]:
        """The held lines, at the end of the log or of a prompt that was cut off."""
        held, self._held, self._quote = self._held, [], None
        return held

    def _open(self, record: Record) -> None:
        if record.serious or ("'" not in record.text and '"' not in record.text):
            return
        for match in _OPENING.finditer(record.text):
            if closing_quote(record.text, match.end(), match[1]) is None:
                self._quote = match[1]
                return
