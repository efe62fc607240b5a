"""Tables and descriptions of several lines: a heading says what the lines below it mean."""

from abc import ABC, abstractmethod

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern


class Block(ABC):
    """One kind of such a text, read line by line. Other writers' lines may stand between its own.

    Attributes:
        heading: Found in the line that begins it.
        patience: Lines in a row that are none of its own, after which it has ended.
        alone: Whether its lines are told by it alone, also where it makes nothing of them.
    """

    heading: Pattern
    patience = 3
    alone = False

    def __init__(self) -> None:
        self._left = 0

    @property
    def open(self) -> bool:
        """Whether the next line may belong to it."""
        return self._left > 0

    def take(self, text: str) -> list[Fact] | None:
        """What a line tells; None where it does not belong."""
        if self.begins(text):
            self._left = self.patience
            return []
        if not self.open:
            return None
        found = self.row(text)
        self._left = self._left - 1 if found is None else self.patience
        return found

    def close(self) -> None:
        """It has ended."""
        self._left = 0

    def begins(self, text: str) -> bool:
        """Whether a line begins it; what its heading says is kept."""
        return self.heading.search(text) is not None

    @abstractmethod
    def row(self, text: str) -> list[Fact] | None:
        """What a line below the heading tells; None where it does not belong."""
