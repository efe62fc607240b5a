"""From facts to rows: sequence numbers, incarnations, ranks, and the log rows that citations point to."""

from dataclasses import dataclass, field
from typing import Any

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.collectors.artifacts.logs.templates import Part
from oomctl.collectors.artifacts.logs.times import Stamp
from oomctl.schemas.rows import Row, make_row

_ENDINGS = frozenset({"stopped", "killed"})
_TELLING = frozenset({"lifecycle", "oom", "refusal", "fault", "manifest", "process"})
"""Kinds by which a life is followed; any other fact only shows that it has begun."""
_AFTER_WEIGHTS = frozenset({"weights_loaded", "profiling", "kv_allocated", "compiling", "capturing"})
_WRITTEN = frozenset({"text", "message", "detail", "code", "name", "value", "victim"})
"""Fields that repeat what a line says; nothing leaves here unredacted."""


def figures_only(facts: list[Fact]) -> bool:
    """Whether facts are plain figures: they change no life, and repeat no text."""
    return not [fact for fact in facts if fact.kind in _TELLING or fact.common or not _WRITTEN.isdisjoint(fact.fields)]


@dataclass
class Life:
    """What is known of a worker's present incarnation.

    Attributes:
        number: Its number within the stream, from 1.
        begun: Whether anything beyond its spawning was seen.
        ended: Whether it was seen to stop, or to die.
        restarting: Whether its supervisor has said since that it is started again.
        loaded: Whether weights, or what is made after them, were seen.
        served: Whether it was ready or worked after that: what it loads then, it loads anew.
        spawned: (process, pid) that announced themselves.
        ranks: Global rank of each process id.
        phases: The phase that each process printed last.
        engine: Whose lines were recognised, or who announced itself.
    """

    number: int = 1
    begun: bool = False
    ended: bool = False
    restarting: bool = False
    loaded: bool = False
    served: bool = False
    spawned: dict[str | None, int | None] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    phases: dict[str | None, str] = field(default_factory=dict)
    engine: str | None = None


class Emitter:
    """Makes the rows of one stream."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._seq = 0
        self._lives: dict[str, Life] = {}
        self._logged = 0

    def rows(self, record: Record, facts: list[Fact], engine: str | None = None) -> list[Row]:
        """The log row of a line (once per line) and a row per fact.

        Args:
            record: The line.
            facts: What it tells.
            engine: Whose line it is: a manifest row says so where the engine has not announced itself.
        """
        worker = record.worker or self._stream
        life = self._lives.setdefault(worker, Life())
        telling = any(fact.kind in _TELLING or "rank" in fact.common for fact in facts)
        if telling:
            facts = self._followed(life, record, facts)
        elif facts:
            life.begun = True
        if not facts and not record.serious:
            return []
        if engine is not None and life.engine is None:
            life.engine = engine
            facts = [
                Fact("manifest", {"section": "engine", "key": "name", "value": engine}, {"quality": "derived"}),
                *facts,
            ]
        common = self._common(record, worker, life)
        rows: list[Row] = []
        if record.line != self._logged:
            self._logged = record.line
            rows.append(self._row("log", self._log_fields(record), common))
            if record.repeats:
                rows.append(self._row("loss", {"reason": "left out by Ray as repeated", "count": record.repeats}, common))
        for fact in facts:
            rows.append(self._row(fact.kind, fact.fields, {**common, **fact.common} if fact.common else common))
        return rows

    def repeated(self, record: Record, facts: list[Fact], engine: str | None) -> list[Row]:
        """As `rows`, of a line without a secret that tells figures only (`figures_only`), as one before it did."""
        worker = record.worker or self._stream
        life = self._lives.get(worker)
        if life is None or not facts or (engine is not None and life.engine is None):
            return self.rows(record, facts, engine)
        life.begun = True
        self._logged = record.line
        common = self._common(record, worker, life)
        rows: list[Row] = [{**common, "kind": "log", "log": self._log_fields(record), "seq": self._seq + 1}]
        rows += [
            {**common, "kind": fact.kind, fact.kind: fact.fields, "seq": seq}
            for seq, fact in enumerate(facts, self._seq + 2)
        ]
        self._seq += len(rows)
        return rows

    def knows(self, like: Record) -> bool:
        """Whether the life of a line's worker has begun, and its engine is known: nothing but figures is news then."""
        life = self._lives.get(like.worker or self._stream)
        return life is not None and life.begun and life.engine is not None

    def filled(self, like: Record, number: int, raw: str, moment: Stamp | None, parts: tuple[Part, ...]) -> list[Row]:
        """As `repeated`, of a line like one before (`knows`) of which the parts tell the figures."""
        worker = like.worker or self._stream
        self._logged = number
        common = self._common(like, worker, self._lives[worker])
        common["line"] = number
        if moment is None:
            common.pop("ts", None)
            common["ts_quality"] = "none"
        else:
            common["ts"], common["ts_quality"] = moment
        log = self._log_fields(like)
        log["text"] = raw
        seq = self._seq + 1
        rows: list[Row] = [{**common, "kind": "log", "log": log, "seq": seq}]
        for part in parts:
            seq += 1
            rows.append({**common, "kind": part.kind, part.kind: part.fields(raw), "seq": seq})
        self._seq = seq
        return rows

    def _followed(self, life: Life, record: Record, facts: list[Fact]) -> list[Fact]:
        """The facts that are news, after the life has taken note of them."""
        for fact in facts:
            if life.restarting and fact.kind == "lifecycle" and fact.fields["phase"] == "loading":
                self._begin_anew(life)
            if life.served and fact.kind == "lifecycle" and fact.fields["phase"] == "loading":
                fact.fields["phase"] = "reloading"
        kept = [fact for fact in facts if not self._repeated(life, record, fact)]
        for fact in kept:
            self._follow(life, record, fact)
        return kept

    def _row(self, kind: str, fields: dict[str, Any], common: dict[str, Any]) -> Row:
        self._seq += 1
        if not _WRITTEN.isdisjoint(fields):
            for name in _WRITTEN & fields.keys():
                if isinstance(fields[name], str):
                    fields = {**fields, name: redact(fields[name])}
        row = make_row(kind, fields, common)
        row["seq"] = self._seq
        return row

    def _log_fields(self, record: Record) -> dict[str, Any]:
        fields: dict[str, Any] = {"file": self._stream, "text": record.raw}
        if record.level is not None:
            fields["level"] = record.level
        if record.logger is not None:
            fields["logger"] = record.logger
        return fields

    def _common(self, record: Record, worker: str, life: Life) -> dict[str, Any]:
        rank = record.rank
        if record.pid is not None:
            rank = life.ranks.get(record.pid, rank)
        common: dict[str, Any] = {
            "stream": self._stream,
            "line": record.line,
            "worker": worker,
            "incarnation": str(life.number),
            "source": "log",
            "quality": "measured",
            "ts_quality": record.ts_quality,
        }
        for name, value in (
            ("ts", record.ts),
            ("node", record.node),
            ("rank", rank),
            ("rank_name", record.rank_name),
        ):
            if value is not None:
                common[name] = value
        return common

    @staticmethod
    def _repeated(life: Life, record: Record, fact: Fact) -> bool:
        """Whether a process says again what it said last: a progress bar tells one thing, however often it is drawn."""
        if fact.kind in ("oom", "refusal", "fault"):
            life.phases.clear()
        if fact.kind != "lifecycle" or fact.fields["phase"] in ("spawned", *_ENDINGS):
            return False
        told = life.phases.get(record.process)
        life.phases[record.process] = fact.fields["phase"]
        return bool(told == fact.fields["phase"])

    @staticmethod
    def _begin_anew(life: Life) -> None:
        """A new incarnation: one that announced itself, or one that a supervisor started and that loads its weights."""
        life.number += 1
        life.begun = life.ended = life.restarting = life.loaded = life.served = False
        life.spawned.clear()
        life.ranks.clear()
        life.phases.clear()
        life.engine = None

    @staticmethod
    def _follow(life: Life, record: Record, fact: Fact) -> None:
        """Notice starts and ends. A process that announces itself again, or after an end, begins a new incarnation."""
        if fact.kind == "lifecycle":
            phase = fact.fields["phase"]
            if phase == "spawned":
                reloading = "reloading" in life.phases.values()  # a server announces the engine that it loads anew
                again = record.process in life.spawned and life.begun and not reloading
                if life.ended or again:
                    Emitter._begin_anew(life)
                life.spawned[record.process] = record.pid
            elif phase in _ENDINGS:
                life.ended = True
                life.restarting = str(fact.fields.get("detail")).startswith("restart:")
            else:
                life.begun = True
                life.loaded = life.loaded or phase in _AFTER_WEIGHTS
                life.served = life.served or (life.loaded and phase in ("ready", "serving"))
        elif fact.kind == "fault" and fact.fields.get("code") == "engine_dead":
            life.ended = True
        elif fact.kind == "manifest":
            if fact.fields["section"] == "engine" and fact.fields["key"] == "name":
                life.engine = fact.fields["value"]
        elif fact.kind != "process":
            life.begun = True
        if "rank" in fact.common and record.pid is not None:
            life.ranks[record.pid] = fact.common["rank"]
