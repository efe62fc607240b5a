"""What the recorder tells who runs it, through the standard library's logging: an event's name, its words, its figures.

Whoever starts a recorder decides how that is written (`oomctl attach --log-format`); until then nobody hears it.
"""

import logging
from typing import Any

from oomctl.collectors.recorder.own import Note

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR
LOGGER = logging.getLogger("oomctl.recorder")
LOGGER.addHandler(logging.NullHandler())


def tell(level: int, event: str, text: str, **figures: Any) -> None:
    """Tell of an event.

    Args:
        level: Of logging.
        event: Its name below `oomctl.`, which stays the same whatever the words: `incident.frozen`.
        text: For reading.
        figures: For programs; None where it is not known.
    """
    known = {f"oomctl.{name}": value for name, value in figures.items() if value is not None}
    LOGGER.log(level, "%s", text, extra={"event_name": f"oomctl.{event}", "attributes": known})


class Mentioned:
    """What was told of each source: of one that stays as it is, nothing more."""

    def __init__(self) -> None:
        self._last: dict[str, Note] = {}

    def tell(self, note: Note) -> None:
        """Tell of a source whose state has changed."""
        if self._last.get(note.source) == note:
            return
        self._last[note.source] = note
        level = INFO if note.state == "ok" else WARNING
        tell(level, "source.state", f"{note.source}: {note.state}: {note.detail}", source=note.source, state=note.state)
