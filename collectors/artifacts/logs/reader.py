"""Reads one log: every line once, in order, to rows of the event table."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO

from oomctl.collectors.artifacts.logs import failures, nccl, registry, system, torch_message
from oomctl.collectors.artifacts.logs.answers import Answers
from oomctl.collectors.artifacts.logs.emitter import Emitter, figures_only
from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.familiar import Familiar
from oomctl.collectors.artifacts.logs.lines import Lines
from oomctl.collectors.artifacts.logs.native import Held
from oomctl.collectors.artifacts.logs.order import Order
from oomctl.collectors.artifacts.logs.quotes import Captured, Quotes
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.collectors.artifacts.logs.source import RawLines
from oomctl.collectors.artifacts.logs.tracebacks import Assembler, Traceback, introduces
from oomctl.schemas.rows import Row

_FAILED = frozenset({"oom", "refusal", "fault"})
"""Kinds by which a rule has told a failure already."""


class LogReading:
    """A log being read. Iterate `rows` to the end; the other attributes are complete then.

    Args:
        file: Its bytes. Where it may still grow, its `read` gives None for "nothing now", and `follow` passes that on.
        stream: What rows call it.
        repetitive: As for RawLines.

    Attributes:
        rows: Of the event table.
    """

    def __init__(self, file: BinaryIO, stream: str, repetitive: Callable[[], bool] = lambda: False) -> None:
        self._source = RawLines(file, repetitive)
        self._lines = Lines()
        self._familiar = Familiar(self._lines)
        self._emitter = Emitter(stream)
        self._assembler = Assembler()
        self._quotes = Quotes()
        self._captured = Captured()
        self._system = system.System()
        self._answers = Answers()
        self._engines: dict[str, int] = {}
        self._called: dict[str, str] = {}
        self._stacks = 0
        self._at = 0
        self._held: Held | None = None
        self._order = Order()
        self._rows = self._read()
        self.rows: Iterator[Row] = (row for row in self._rows if row is not None)

    @property
    def lines(self) -> int:
        """Lines read, as `wc -l` counts, plus a last one without its \\n."""
        return self._source.lines

    @property
    def alike(self) -> int:
        """Lines that were counted and not looked at, because they repeat others."""
        return self._source.alike

    @property
    def bytes(self) -> int:
        """Bytes read."""
        return self._source.bytes

    @property
    def problem(self) -> str | None:
        """Why the input cannot be read as a log, or None."""
        return self._source.problem

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines whose own lines were found, by the name they give themselves, the commonest first; else those whose
        sources a stack runs through, else the framework.
        """
        found = sorted(self._engines, key=lambda name: -self._engines[name])
        engines = [name for name in found if name != "pytorch"]
        known = [name for name in engines if self._engines[name]] or engines or found
        return tuple(dict.fromkeys(self._called.get(name, name) for name in known))

    def follow(self) -> Iterator[Row]:
        """The rows that the log gives so far; to be called again when it has grown. It ends for good where `read` ends."""
        for row in self._rows:
            if row is None:
                return
            yield row

    @property
    def holds(self) -> bool:
        """Whether rows wait for what the next lines say: those of a traceback, or of a failure that a stack may follow."""
        return self._assembler.busy or self._held is not None

    def release(self) -> Iterator[Row]:
        """The rows that wait, of a log that has fallen silent: whoever wrote the traceback may be dead."""
        self._let_go()
        self._finish(self._assembler.finish())
        yield from self._in_order()

    def _read(self) -> Iterator[Row | None]:
        quiet = True
        for found in self._source.lines_of_interest(self._looking):
            if found is None:
                yield None
                continue
            self._at = found[0]
            rows = self._figures(*found) if quiet else None
            if rows is not None:
                yield from rows
                continue
            records = self._lines.records(*found)
            for record in records:
                yield from self._weigh(record)
            before, quiet = quiet, self._quiet()
            if before and quiet and len(records) == 1:
                self._familiar.learn(records[0])
        for record in self._lines.rest():
            yield from self._weigh(record)
        held, after = self._quotes.release()
        self._second_look(held)
        for late in after:
            yield from self._take(late)
        self._let_go()
        self._finish(self._assembler.finish())
        yield from self._in_order()
        lost = (
            ("line too long", self._source.cut, "cut at 1 MiB for matching"),
            ("line repeated", self._source.alike, "copies in an archive that expands as only repetitions do"),
        )
        facts = [Fact("loss", {"reason": why, "count": count, "detail": what}) for why, count, what in lost if count]
        if facts:
            yield from self._emitter.rows(Record(self._source.lines, "", ""), facts)

    def _weigh(self, record: Record) -> list[Row]:
        """Take a record, unless it is text that a user wrote."""
        if self._captured.feed(record):
            return []
        inside, held, after = self._quotes.feed(record)
        self._second_look(held)
        rows = [row for late in after for row in self._take(late)]
        return rows if inside else rows + self._take(record)

    def _figures(self, number: int, raw: str) -> list[Row] | None:
        """The rows of a line like one before it, if it tells figures only; None where it is to be read in full."""
        found = self._familiar.find(raw)
        if found is None:
            return None
        like, moment = found
        if like.parts is not None and self._emitter.knows(like.record):
            self._engines[like.engine] += len(like.parts)
            return self._emitter.filled(like.record, number, raw, moment, like.parts)
        record = like.read(number, raw, moment)
        told = list(registry.facts(record))
        if not figures_only([fact for _, fact in told]):
            return None
        like.told(record, told)
        facts, writer = self._told(record, told)
        return self._emitter.repeated(record, facts, writer)

    def _quiet(self) -> bool:
        """Whether nothing that went before bears on the next line."""
        return not self._attentive() and not self._order and self._lines.settled

    def _looking(self) -> bool:
        """Whether to look at the next line whatever it holds."""
        return self._attentive() or self._answers.wants(self._at + 1)

    def _attentive(self) -> bool:
        """Whether the next line matters whatever it holds: a traceback, a quotation, a table or a line in parts is open."""
        reading = self._assembler.busy or self._quotes.open or self._captured.open or self._lines.open or self._system.open
        return reading or self._held is not None

    def _second_look(self, held: Iterable[Record]) -> None:
        """Lines of a prompt that was cut off. An exception line among them counts only if it ends a traceback."""
        for record in held:
            self._finish(self._assembler.feed(record, headless=False)[1])

    def _take(self, record: Record) -> list[Row]:
        if self._held is not None:
            if self._held.take(record):
                return []
            if self._held.explained_by(record):
                self._held.explain(self._report(record, []))
                return []
            self._let_go()
        part, done = self._assembler.feed(record)
        self._finish(done)
        facts: list[Fact] = []
        writer: str | None = None
        if not part:
            facts, writer = self._told(record, list(registry.facts(record)))
            facts += self._report(record, facts)
            facts += self._answers.facts(record)
            if facts and writer is None and record.engine in registry.ENGINES:
                writer = record.engine
        elif introduces(record.text):
            facts += [fact for _, fact in registry.facts(record)]
        kinds = {fact.kind for fact in facts}
        if "lifecycle" in kinds and any(fact.fields.get("phase") == "spawned" for fact in facts):
            self._finish(self._assembler.finish())
        if not part and "oom" in kinds:
            self._held = Held(record, facts, writer)
        elif facts or record.serious:
            if not self._order and not self._assembler.busy:
                return self._emitter.rows(record, facts, writer)
            self._order.put((record, facts, writer))
        return list(self._in_order()) if self._order else []

    def _told(self, record: Record, found: list[tuple[str, Fact]]) -> tuple[list[Fact], str | None]:
        """What registry.facts found, and whose line it is; of a line that several engines print alike, its header's."""
        engines = {engine for engine, _ in found} & registry.ENGINES
        if len(engines) > 1 and record.engine in engines:
            found = [(engine, fact) for engine, fact in found if engine == record.engine or engine not in engines]
            engines = {record.engine}
        writer = record.engine if found and record.engine in registry.ENGINES else None
        for engine, fact in found:
            if len(engines) < 2:
                self._engines[engine] = self._engines.get(engine, 0) + 1
            if fact.kind == "manifest" and (fact.fields["section"], fact.fields["key"]) == ("engine", "name"):
                self._called[engine] = fact.fields["value"]
            writer = engine if engine in registry.ENGINES else writer
        return [fact for _, fact in found], writer

    def _in_order(self) -> Iterator[Row]:
        """The rows of all lines that no open traceback or failure line can precede any more."""
        first = self._assembler.first
        if self._held is not None:
            first = min(first or self._held.record.line, self._held.record.line)
        for record, facts, engine in self._order.before(first):
            yield from self._emitter.rows(record, facts, engine)

    def _let_go(self) -> None:
        """A failure line is complete, with the native stack that stood below it."""
        held, self._held = self._held, None
        if held is None:
            return
        self._answers.watch(held.record, held.facts)
        if held.frames:
            self._stacks += 1
            stack_id = f"t{self._stacks}"
            for fact in held.facts:
                if fact.kind == "oom":
                    fact.fields["stack_id"] = stack_id
            for record, frame in held.numbered(stack_id):
                self._order.put((replace(held.record, line=record.line, raw=record.raw), [frame], None))
        engine = held.engine or self._of_sources(str(fact.fields["file"]) for _, fact in reversed(held.frames))
        self._order.put((held.record, held.facts, engine))

    def _report(self, record: Record, known: list[Fact]) -> list[Fact]:
        """What a line outside a traceback reports of failures and of the system."""
        text = record.text
        facts: list[Fact] = []
        if _FAILED.isdisjoint([fact.kind for fact in known]):
            failure = failures.of_line(record)
            if failure is not None:
                facts.append(failure)
                facts += failures.neighbours(text)
        if facts:
            return facts + system.surroundings(text)
        if nccl.WARNS in text:
            facts += nccl.stated("", redact(text))
        if record.headed and record.level is not None and not record.serious:
            return facts + system.ordered(text)
        if self._system.open or system.looks_like(text):
            return facts + self._system.facts(redact(text))
        return facts

    def _finish(self, done: Iterable[Traceback]) -> None:
        """Tracebacks are complete. One that the log cuts off before its exception tells nothing certain."""
        for traceback in done:
            if traceback.at is None:
                continue
            fact = failures.of_traceback(traceback)
            if fact is None:
                continue
            self._stacks += 1
            stack_id = f"t{self._stacks}"
            if fact.fields.get("code") not in ("exception", "engine_dead"):
                for record, frame in failures.stack_rows(traceback, stack_id):
                    self._order.put((_by(traceback, record), [frame], None))
                if traceback.frames:
                    fact.fields["stack_id"] = stack_id
            facts = [*nccl.stated(traceback.error_type, redact(traceback.message)), fact]
            if fact.kind == "oom" and torch_message.looks_like(traceback.message):
                facts += failures.neighbours(traceback.message)
            if fact.kind == "oom":
                facts += system.surroundings(traceback.message)
            self._answers.watch(traceback.at, facts)
            engine = self._of_sources(frame.file for frame in traceback.frames)
            self._order.put((_by(traceback, traceback.at), facts, engine))

    def _of_sources(self, files: Iterable[str]) -> str | None:
        """Whose source files a stack runs through, which may be all that tells the engine."""
        engine = registry.engine_of(files)
        if engine is not None:
            self._engines.setdefault(engine, 0)
        return engine


def _by(traceback: Traceback, record: Record) -> Record:
    """A bare line of a traceback, as written by whoever wrote its first line."""
    first = traceback.first
    if record.headed or record.rank is not None or first.rank_name is None:
        return record
    return Record(
        record.line,
        record.raw,
        record.text,
        level=first.level,
        logger=first.logger,
        process=first.process,
        pid=first.pid,
        rank_name=first.rank_name,
        rank=first.rank,
        ts=first.ts,
        ts_quality=first.ts_quality,
        worker=record.worker,
        node=record.node,
    )
