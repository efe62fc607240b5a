"""From a raw line to records: envelope opened, colours dropped, outer prefix stripped, header read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from oomctl.collectors.artifacts.logs import times
from oomctl.collectors.artifacts.logs.headers import LEVELS, PROCESS, HeaderPattern, rank_of
from oomctl.collectors.artifacts.logs.objects import open_envelope, open_member
from oomctl.collectors.artifacts.logs.prefixes import Prefixes, is_progress, plain
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.registry import HEADERS
from oomctl.collectors.artifacts.logs.standard import known_prefix

_RANK_SUFFIX = re.compile(r"(?:^|_)((?:(?:DP|PP|TP|EP|CP)\d+(?:_|$))+)|(rank=\d+)|^rank(\d+)$")
_BREAKS = re.compile(r"[\r\n]+")
"""What stands between them a terminal would have shown one after the other."""
_INVISIBLE = "\ufeff\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""A byte order mark, and marks of writing direction, which hide a line from a pattern but not from a reader."""
MAX_LAYERS = 8
"""Envelopes around one line: a pod's JSON line in Docker's JSON line in a journal, and room for more."""
MAX_PARTS = 64
"""Lines that are open at once, in parts, of as many containers and streams."""
_TRACEBACK = "Traceback (most recent call last):"
_OBJECT = re.compile(r'\{ ?"')
_CLOSING = ('"', '",')
"""With which a line ends that is a member of an object."""
MAX_MATCHED = 65536
"""Characters of what a process printed that are looked at; a scheduler dump of hundreds of requests fits."""
_CLUSTER = "x across cluster]"
_REPEATED = re.compile(r" \[repeated (\d{1,6})x across cluster\](?: \(Ray deduplicates logs .{0,300}\))?\s*$")


@dataclass
class Opened:
    """A line taken out of its prefixes and objects.

    Attributes:
        text: What the process printed.
        outer: The prefix, or the time as the object says it, that tells when.
        worker: Pod or container, or None.
        node: Host, or None.
        flow: stdout or stderr, or None.
        partial: Whether the line goes on in the next one of its flow.
        repeats: How many further processes printed the same, which Ray left out.
        learned: Whether a prefix was taken off that no format fixes.
    """

    text: str
    outer: str | None = None
    worker: str | None = None
    node: str | None = None
    flow: str | None = None
    partial: bool = False
    repeats: int = 0
    learned: bool = False


class Stamps(NamedTuple):
    """The times of a line with a header, as printed.

    Attributes:
        outer: In the envelope, with its zone; or None.
        printed: In the engine's own header, or None.
        year: Whether that one carries a year.
    """

    outer: str | None
    printed: str | None
    year: bool


class Lines:
    """Makes records of the lines of one stream, learning its prefixes as they come.

    Attributes:
        stamps: Of the record that was made last; None where it has no header, or a prefix that had to be learned.
    """

    def __init__(self) -> None:
        self._prefixes = Prefixes()
        self._parts: dict[tuple[str | None, ...], Record] = {}
        self._year: int | None = None
        self.stamps: Stamps | None = None

    @property
    def settled(self) -> bool:
        """Whether no earlier line bears on how the next one is read."""
        return not self._parts and not self._prefixes.waiting

    @property
    def open(self) -> bool:
        """Whether a line is open of which a runtime has written only parts."""
        return bool(self._parts)

    def records(self, number: int, raw: str) -> list[Record]:
        """The records of one raw line: one for most; several for progress bars and envelopes with line breaks; none yet for
        a line that goes on.
        """
        self.stamps = None
        opened = self._unwrap(plain(raw).lstrip(_INVISIBLE))
        record = Record(
            number, raw, opened.text[:MAX_MATCHED], worker=opened.worker, node=opened.node, repeats=opened.repeats
        )
        if opened.partial or self._parts:
            whole = self._joined(record, opened)
            if whole is None:
                return []
            record = whole
        pieces = self._pieces(record, opened.outer)
        if opened.learned:
            self.stamps = None
        return pieces

    def inner(self, raw: str) -> str:
        """What the process printed on a line, without prefixes and objects, by what was learnt of those so far."""
        return self._unwrap(plain(raw).lstrip(_INVISIBLE)).text

    def rest(self) -> Iterator[Record]:
        """The lines of which the log has no last part."""
        parts, self._parts = self._parts, {}
        for record in parts.values():
            yield from self._pieces(record, None)

    def _joined(self, record: Record, opened: Opened) -> Record | None:
        """The line with its earlier parts, under the first one's number; None where more is to come."""
        key = (opened.flow, opened.worker, opened.node)
        first = self._parts.pop(key, None)
        if first is not None:
            record = first.with_text((first.text + record.text)[:MAX_MATCHED])
        if not opened.partial or len(self._parts) >= MAX_PARTS:
            return record
        self._parts[key] = record
        return None

    def _pieces(self, record: Record, outer: str | None) -> list[Record]:
        """The parts of a line that stand between carriage returns, or between the line breaks of an object's text."""
        if "\r" not in record.text and "\n" not in record.text:
            return self._split(record, outer)
        parts = (part for part in _BREAKS.split(record.text) if part)
        return [piece for part in parts for piece in self._split(record.with_text(part), outer)]

    def _unwrap(self, text: str) -> Opened:
        """What the process printed, without prefixes and objects, in whatever order they stand."""
        line = Opened(text)
        for _ in range(MAX_LAYERS):
            if _CLUSTER in line.text and (repeated := _REPEATED.search(line.text)) is not None:
                line.text, line.repeats = line.text[: repeated.start()], int(repeated[1])
            known = known_prefix(line.text)
            if known is not None:
                line.outer = times.outer_in(line.text[: known.end]) or line.outer
                line.text = line.text[known.end :]
                line.worker, line.node, line.flow = (
                    known.worker or line.worker,
                    known.node or line.node,
                    known.flow or line.flow,
                )
                line.partial |= known.partial
                continue
            if self._take_out(line):
                continue
            prefix, rest = ("", "") if line.learned else self._prefixes.strip(line.text)
            if not prefix:
                break
            line.outer, line.text, line.learned = times.outer_in(prefix) or line.outer, rest, True
        return line

    @staticmethod
    def _take_out(line: Opened) -> bool:
        """Replace a line by what the object on it holds; False where there is none."""
        opening = _OBJECT.search(line.text) if "{" in line.text else None
        brace = opening.start() if opening is not None else -1
        envelope = open_envelope(line.text[brace:]) if brace >= 0 else None
        if envelope is None:
            envelope = open_member(line.text) if line.text.endswith(_CLOSING) else None
        if envelope is None:
            return False
        line.outer = envelope.stamp or times.outer_in(line.text[: max(brace, 0)]) or line.outer
        line.text = plain(envelope.text)
        line.worker, line.node = envelope.worker or line.worker, envelope.node or line.node
        line.flow, line.partial = envelope.flow or line.flow, line.partial or envelope.partial
        return True

    def _split(self, record: Record, outer: str | None) -> list[Record]:
        """Find the engine's header; what stands before it is a prefix to learn, or a progress bar that it was glued to."""
        text = record.text
        glued: list[Record] = []
        for header in HEADERS:
            match = _find(header, text)
            if match is None:
                continue
            start, ranks = match.start(), None
            process = _process_before(text, start)
            if process is not None:
                start = process.start()
            before = text[:start]
            if before.strip():
                if is_progress(before) or len(before) > 240:
                    glued.append(self._bare(record.with_text(before), outer))
                elif _closes_quote(before):
                    break
                else:
                    self._prefixes.learn(before)
                    outer = times.outer_in(before) or outer
            groups = match.groupdict()
            ranks = groups.get("ranks") or groups.get("ranks0")
            world_rank = groups.get("global") or groups.get("global0")
            if world_rank is not None:
                ranks = f"rank={world_rank}"
            return [*glued, self._headed(record, text[match.end() :], header, groups, process, ranks, outer, before)]
        return [*glued, self._bare(record, outer)]

    def _headed(
        self,
        record: Record,
        text: str,
        header: HeaderPattern,
        groups: dict[str, str | None],
        process: re.Match[str] | None,
        ranks: str | None,
        outer: str | None,
        before: str,
    ) -> Record:
        printed = groups.get("ts")
        moment = self.time(outer, printed, header.year)
        ours = outer is None or times.is_zoned(outer)
        self.stamps = Stamps(outer, printed, header.year) if ours and not before else None
        name, pid, rank_name, rank = _who(process, ranks)
        return Record(
            record.line,
            record.raw,
            text,
            headed=True,
            engine=header.engine,
            level=LEVELS.get(groups.get("level") or "", groups.get("level")),
            logger=groups.get("logger") or groups.get("logger0"),
            process=name,
            pid=pid,
            rank_name=rank_name,
            rank=rank,
            ts=moment[0] if moment is not None else None,
            ts_quality=moment[1] if moment is not None else "none",
            worker=record.worker,
            node=record.node or _host(process),
            repeats=record.repeats,
        )

    def _bare(self, record: Record, outer: str | None) -> Record:
        """A line without a header: it may still say which process printed it."""
        text = record.text
        process = PROCESS.match(text) if text[:1] in "([" else None
        host = _host(process)
        while process is not None and (inner := PROCESS.match(text, process.end())) is not None:
            process = inner  # Ray names its actor before the name that the engine's own process has
        start = text.find(_TRACEBACK)
        if start > 0 and process is None:
            self._prefixes.propose(text[:start])
        name, pid, rank_name, rank = _who(process, None)
        moment = self.time(outer, None, True)
        return Record(
            record.line,
            record.raw,
            text[process.end() :] if process is not None else text,
            process=name,
            pid=pid,
            rank_name=rank_name,
            rank=rank,
            ts=moment[0] if moment is not None else None,
            ts_quality=moment[1] if moment is not None else "none",
            worker=record.worker,
            node=record.node or host,
            repeats=record.repeats,
        )

    def time(self, outer: str | None, printed: str | None, has_year: bool) -> times.Stamp | None:
        """The envelope's time if it names its zone, else the engine's own."""
        moment = times.parse_outer(outer, self._year) if outer else None
        if moment is not None and moment[1] == "exact":
            self._year = times.year_of(moment)
            return moment
        if printed is None:
            return moment
        return times.parse_full(printed) if has_year else times.parse_short(printed, self._year)


def _find(header: HeaderPattern, text: str) -> re.Match[str] | None:
    if header.anchor.search(text) is None:
        return None
    return header.pattern.search(text)


def _process_before(text: str, start: int) -> re.Match[str] | None:
    """The process prefix that ends where the header starts."""
    if start == 0 or text[start - 1] not in " )]:":
        return None
    opening = max(text.rfind("(", 0, start), text.rfind("[rank", 0, start))
    if opening < 0:
        return None
    match = PROCESS.match(text, opening)
    return match if match is not None and match.end() == start else None


def _closes_quote(before: str) -> bool:
    """Whether a header inside a quotation was found: somebody pasted a log line into a prompt."""
    return any(before.count(quote) % 2 == 1 and f"{mark}{quote}" in before for quote in "'\"" for mark in ": =")


def _host(process: re.Match[str] | None) -> str | None:
    """The node that Ray names where the process runs on another one than the driver."""
    return process["ip"] if process is not None else None


def _who(process: re.Match[str] | None, ranks: str | None) -> tuple[str | None, int | None, str | None, int | None]:
    """(process, pid, rank name, rank) of a line."""
    if process is None and not ranks:
        return None, None, None, None
    name, pid, rank_name = None, None, None
    if process is not None:
        name = process["process"] or process["distributed"]
        pid = int(process["pid"]) if process["pid"] else None
        printed = (process["rank"] or "").strip()
        suffix = _RANK_SUFFIX.search(printed or name or "")
        rank_name = f"{name} {printed}".strip() if printed else name if suffix is not None else None
        if process["distributed"]:
            return name, None, name, int(process["distributed"][4:])
        if suffix is not None and not ranks:
            # An EngineCore's own DP number names a replica, not a rank of it.
            rank = rank_of(printed or suffix[1] or "") if not (name or "").startswith("EngineCore") else None
            return name, pid, rank_name, rank
    if ranks:
        cleaned = ranks.strip().replace(" ", "_")
        return name, pid, cleaned, rank_of(cleaned)
    return name, pid, rank_name or name, None
