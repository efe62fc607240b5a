"""From a raw line to records: envelope opened, colours dropped, outer prefix stripped, header read."""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs import times
from oomctl.collectors.artifacts.logs.headers import LEVELS, PROCESS, HeaderPattern, rank_of
from oomctl.collectors.artifacts.logs.prefixes import ANSI, Prefixes, is_progress, open_envelope, stamp_in
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.registry import HEADERS

_RANK_SUFFIX = re.compile(r"(?:^|_)((?:(?:DP|PP|TP|EP|CP)\d+(?:_|$))+)|(rank=\d+)|^rank(\d+)$")
_BREAKS = re.compile(r"[\r\n]+")
"""What stands between them a terminal would have shown one after the other."""
_INVISIBLE = "\ufeff\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""A byte order mark, and marks of writing direction, which hide a line from a pattern but not from a reader."""
MAX_LAYERS = 5
"""Envelopes around one line: a pod's JSON line in Docker's JSON line in a journal, and room for more."""
_TRACEBACK = "Traceback (most recent call last):"
MAX_MATCHED = 65536
"""Characters of a line that are looked at; a scheduler dump of hundreds of requests fits."""


class Lines:
    """Makes records of the lines of one stream, learning its prefixes as they come."""

    def __init__(self) -> None:
        self._prefixes = Prefixes()
        self._year: int | None = None

    def records(self, number: int, raw: str) -> Iterator[Record]:
        """The records of one raw line: one for most; several for progress bars and envelopes with line breaks."""
        text = raw[:MAX_MATCHED].lstrip(_INVISIBLE)
        if "\x1b" in text:
            text = ANSI.sub("", text)
        body, stamp, worker, node = self._unwrap(text)
        if "\r" in body or "\n" in body:
            for part in _BREAKS.split(body):
                if part:
                    yield from self._split(Record(number, raw, part, worker=worker, node=node), stamp)
            return
        yield from self._split(Record(number, raw, body, worker=worker, node=node), stamp)

    def _unwrap(self, text: str) -> tuple[str, str | None, str | None, str | None]:
        """(text, stamp, worker, node) of what the process printed, without its prefixes and JSON envelopes."""
        body, stamp, worker, node = text, None, None, None
        for _ in range(MAX_LAYERS):
            prefix, body = self._prefixes.strip(body)
            brace = body.find("{") if '{"' in body else -1
            envelope = open_envelope(body[brace:]) if brace >= 0 else None
            if prefix or brace > 0:
                stamp = stamp_in(prefix + body[: max(brace, 0)]) or stamp
            if envelope is None:
                break
            body, stamp = envelope.text, envelope.stamp or stamp
            worker, node = envelope.worker or worker, envelope.node or node
        return body, stamp, worker, node

    def _split(self, record: Record, stamp: str | None) -> Iterator[Record]:
        """Find the engine's header; what stands before it is a prefix to learn, or a progress bar that it was glued to."""
        text = record.text
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
                    yield from self._bare(record.with_text(before), stamp)
                elif _closes_quote(before):
                    break
                else:
                    self._prefixes.learn(before)
                    stamp = stamp_in(before) or stamp
            groups = match.groupdict()
            ranks = groups.get("ranks") or groups.get("ranks0")
            world_rank = groups.get("global") or groups.get("global0")
            if world_rank is not None:
                ranks = f"rank={world_rank}"
            yield self._headed(record, text[match.end() :], header, groups, process, ranks, stamp)
            return
        yield from self._bare(record, stamp)

    def _headed(
        self,
        record: Record,
        text: str,
        header: HeaderPattern,
        groups: dict[str, str | None],
        process: re.Match[str] | None,
        ranks: str | None,
        stamp: str | None,
    ) -> Record:
        moment = self._time(stamp, groups.get("ts"), header.year)
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
            node=record.node,
        )

    def _bare(self, record: Record, stamp: str | None) -> Iterator[Record]:
        """A line without a header: it may still say which process printed it."""
        text = record.text
        process = PROCESS.match(text) if text[:1] in "([" else None
        start = text.find(_TRACEBACK)
        if start > 0 and process is None:
            self._prefixes.propose(text[:start])
        name, pid, rank_name, rank = _who(process, None)
        moment = self._time(stamp, None, True)
        yield Record(
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
            node=record.node,
        )

    def _time(self, stamp: str | None, printed: str | None, has_year: bool) -> times.Stamp | None:
        """The envelope's time if it names its zone, else the engine's own."""
        outer = times.parse_full(stamp) if stamp else None
        if outer is not None:
            self._year = int(stamp[:4]) if stamp and stamp[:4].isdigit() else self._year
            if outer[1] == "exact":
                return outer
        if printed is None:
            return outer
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


def _who(process: re.Match[str] | None, ranks: str | None) -> tuple[str | None, int | None, str | None, int | None]:
    """(process, pid, rank name, rank) of a line."""
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
