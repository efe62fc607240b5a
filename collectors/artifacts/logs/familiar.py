"""Lines that differ from one read before in their figures alone: what does not depend on these is known of them.

A busy server prints one report a thousand times over. Its lines have few shapes: a shape is the line with every digit
blotted out, one for one, so that patterns which treat all digits alike find the same places in each line of a shape. What
stands before the message must be the same, but for the time; then the header need not be read again, and no search for
failures, secrets and quotations would find what it did not find before. The figures are read by the engine's own rules, or
where these stand in the same places always, by their places alone (`templates`).

Only lines of a plain kind are taken; any other is read in full. Nothing is found that reading in full would not find, and
nothing less: tests compare the two.
"""

from dataclasses import dataclass, field

from oomctl.collectors.artifacts.logs import system, torch_message, tracebacks
from oomctl.collectors.artifacts.logs.lines import Lines, Stamps
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.collectors.artifacts.logs.templates import Part, Told, template
from oomctl.collectors.artifacts.logs.times import Stamp

_BLOT = str.maketrans("123456789", "0" * 9)
_FORBIDDEN = frozenset("'\"{}\\\x1b\r\n\t")
"""Quotations, objects, colours, progress bars: such lines are read in full."""
_WORDS = ("[", "NCCL WARN", "illegal", "SIG", "signal", "ya00", *torch_message.SIGNS, *tracebacks.OPENING)
"""Texts of a message that the search for failures, or for a header behind the header, looks at more closely."""
_SUSPECT = tuple(word.translate(_BLOT) for word in ("rror", *system.LITERALS, *torch_message.SIGNS))
"""Texts that matter in a line that states no level."""
MAX_LENGTH = 1000
MAX_SHAPES = 4096
MAX_HEADS = 256
"""Writers and places in the code that print lines of one shape."""
_CENTURY = 2
"""Characters with which a time begins that must stay, as patterns tell centuries and seconds since 1970 by them."""


TRIED = 8
"""The line of its kind after which it is tried to do without rules."""


@dataclass(slots=True)
class Like:
    """Lines of one shape and one writer.

    Attributes:
        shape: Where their parts stand.
        record: The line that was read in full.
        seen: Lines since.
        parts: What they tell, by places in the line; None where that is not known.
        engine: Whose rules tell it.
    """

    shape: "_Shape"
    record: Record
    seen: int = 0
    parts: tuple[Part, ...] | None = None
    engine: str = ""

    def read(self, number: int, raw: str, moment: Stamp | None) -> Record:
        """Such a line as a record."""
        like = self.record
        ts, quality = moment if moment is not None else (None, "none")
        return Record(
            number, raw, raw[self.shape.message :], True, like.engine, like.level, like.logger, like.process, like.pid,
            like.rank_name, like.rank, ts, quality, like.worker, like.node,
        )  # fmt: skip

    def told(self, record: Record, told: Told) -> None:
        """Take note of what the rules tell of one more such line."""
        self.seen += 1
        if self.seen == TRIED:
            self.parts = template(record, told)
            self.engine = told[0][0] if told else ""


@dataclass(slots=True)
class _Shape:
    """Where the parts of a line stand.

    Attributes:
        stamps: (begin, end) of the time of the envelope and of the engine's own, each None where there is none.
        year: Whether the engine's own carries a year.
        message: Where what the process wrote begins.
        head: (begin, end) of what must be the same before that.
        known: The lines by these parts.
    """

    stamps: tuple[tuple[int, int] | None, tuple[int, int] | None]
    year: bool
    message: int
    head: tuple[tuple[int, int], ...]
    known: dict[tuple[str, ...], Like] = field(default_factory=dict)


class Familiar:
    """The lines of one stream that were read in full, for those that are like them."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._shapes: dict[str, _Shape] = {}

    def find(self, raw: str) -> tuple[Like, Stamp | None] | None:
        """Lines that were learnt and are like this one, and its time; None where there are none."""
        shape = self._shapes.get(raw.translate(_BLOT))
        like = shape.known.get(tuple([raw[begin:end] for begin, end in shape.head])) if shape is not None else None
        if shape is None or like is None:
            return None
        outer, printed = shape.stamps
        return like, self._lines.time(
            raw[outer[0] : outer[1]] if outer is not None else None,
            raw[printed[0] : printed[1]] if printed is not None else None,
            shape.year,
        )

    def learn(self, record: Record) -> None:
        """Take note of a line that was read in full, if another one like it can be told by it.

        Args:
            record: The only one of its line, which opened nothing and told nothing but figures.
        """
        raw, stamps = record.raw, self._lines.stamps
        if stamps is None or not _plain(record):
            return
        blotted = raw.translate(_BLOT)
        shape = self._shapes.get(blotted)
        if shape is None:
            shape = _shape(record, stamps)
            if shape is None or redact(raw) != raw or redact(blotted) != blotted:
                return
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            self._shapes[blotted] = shape
        if len(shape.known) < MAX_HEADS:
            shape.known[tuple([raw[begin:end] for begin, end in shape.head])] = Like(shape, record)


def _plain(record: Record) -> bool:
    """Whether no digit of a line's message decides what the line is."""
    raw, text = record.raw, record.text
    if not record.headed or record.serious or record.repeats or not text or len(raw) > MAX_LENGTH:
        return False
    if not raw.isascii() or not raw.endswith(text) or not _FORBIDDEN.isdisjoint(raw):
        return False
    blotted = text.translate(_BLOT)
    if any(word in blotted for word in _WORDS):
        return False
    return record.level is not None or not any(word in blotted for word in _SUSPECT)


def _shape(record: Record, stamps: Stamps) -> _Shape | None:
    """Where the parts of a line stand; None where a time is not to be found in it."""
    raw, message = record.raw, len(record.raw) - len(record.text)
    found: list[tuple[int, int] | None] = []
    head, end = [], 0
    for stamp in (stamps.outer, stamps.printed):
        if stamp is None:
            found.append(None)
            continue
        begin = raw.rfind(stamp, end, message)
        if begin < 0:
            return None
        head.append((end, begin + _CENTURY))
        end = begin + len(stamp)
        found.append((begin, end))
    return _Shape((found[0], found[1]), stamps.year, message, (*head, (end, message)))
