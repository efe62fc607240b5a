"""Regular expressions that are compiled when first used.

The readers know hundreds, a log needs a few dozen, and compiling all of them would cost more than reading a short log.
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property


class Pattern:
    """As `re.compile` gives it, later."""

    def __init__(self, expression: str, flags: int = 0) -> None:
        self._expression = expression
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The compiled expression."""
        return re.compile(self._expression, self._flags)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """As re.Pattern.search."""
        return self.compiled.search(text, start)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        """As re.Pattern.match."""
        return self.compiled.match(text, start)

    def pairs(self, text: str) -> list[tuple[str, str]]:
        """As re.Pattern.findall, for an expression with two groups."""
        found: list[tuple[str, str]] = self.compiled.findall(text)
        return found

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """As re.Pattern.finditer."""
        return self.compiled.finditer(text)

    def sub(self, replacement: Callable[[re.Match[str]], str], text: str) -> str:
        """As re.Pattern.sub."""
        return self.compiled.sub(replacement, text)
