"""What the recorder reads: a worker's rings, its log, and the live sources beside it, one round at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from oomctl.collectors.agent.process import start_ticks
from oomctl.collectors.live.host.sampler import Process
from oomctl.collectors.live.processes import PROC, incarnation_of, tree, worker_named
from oomctl.collectors.recorder.beside import Beside
from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.drained import Death, Drained
from oomctl.collectors.recorder.leftovers import Leftovers
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.own import Note
from oomctl.collectors.recorder.rings import RingSet
from oomctl.collectors.recorder.settings import Settings
from oomctl.collectors.recorder.slots import Slots, all_rows
from oomctl.collectors.recorder.tail import LogTail
from oomctl.schemas.rows import Row

ROUND_RECORDS = 5_000
"""Of one source in one round; a full ring is drained in several, so that memory stays small."""
LOOK_ROUNDS = 5
"""Rounds between two looks for new rings."""


@dataclass
class Gathered:
    """What one round brought.

    Attributes:
        rows: New ones, in order within each stream.
        slots: New records of rings, kept as they are.
        shown: Rows of those that may be signs.
        old: Rows of a log that was written before recording began: kept, but no sign of anything now.
        at: How far each source was read.
        losses: (reason, count, detail).
        notes: What is to be told of the sources.
        deaths: Of processes whose rings were read to their end.
        more: A source has more to give at once.
    """

    rows: list[Row] = field(default_factory=list)
    slots: list[Slots] = field(default_factory=list)
    shown: list[Row] = field(default_factory=list)
    old: list[Row] = field(default_factory=list)
    at: State = field(default_factory=dict)
    losses: list[tuple[str, int, str]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    more: bool = False

    def all_rows(self) -> Iterator[Row]:
        """The new ones, the records of rings among them."""
        return all_rows(self.rows, self.slots)


class Sources:
    """The sources of one worker.

    Args:
        settings: Which.
        state: What an earlier recorder knew.
        proc: The process file system.
        clock: The recorder's.

    Attributes:
        worker: The engine instance.
        incarnation: Its present life.
        common: Common columns of what is seen beside it; `stream` is what those streams begin with.
        leftovers: Rings that were read to their end.
    """

    def __init__(self, settings: Settings, state: State, proc: Path = PROC, clock: Clock | None = None) -> None:
        self._settings = settings
        self._proc = proc
        self._ticks = start_ticks(settings.pid, proc) if settings.pid is not None else 0
        self.leftovers = Leftovers(proc)
        self._rings: RingSet | None = None
        self._tail: LogTail | None = None
        self._looked = Drained()
        self._round = 0
        self._rotations = 0
        if settings.rings is not None and settings.pid is not None:
            self._rings = RingSet(settings.rings, settings.pid, settings.node, state, self.leftovers, proc)
            self._rings.look(self._looked)
        headers = self._rings.headers if self._rings is not None else []
        named = self._rings.worker if self._rings is not None else None
        self.worker = named or state.get("worker") or _name(settings, proc)
        running = self._rings.incarnation if self._rings is not None else None
        left = next((header.incarnation for header in headers if header.incarnation), None)
        here = incarnation_of(settings.pid, proc) if settings.pid is not None else ""
        self.incarnation = running or left or here
        if settings.log is not None:
            self._tail = LogTail(settings.log, self.worker, state)
        node = settings.node if settings.pid is not None else urlsplit(settings.metrics[0]).hostname
        self.common = {"node": node, "worker": self.worker, "stream": self._place()}
        common = {**self.common, "incarnation": self.incarnation or None}
        self._beside = Beside(settings, common, clock or Clock(), state, proc)

    @property
    def alive(self) -> bool:
        """Whether the process that is recorded runs; of one elsewhere nobody here can say that it does not."""
        if self._settings.pid is None:
            return True
        return self._ticks != 0 and start_ticks(self._settings.pid, self._proc) == self._ticks

    @property
    def rings(self) -> int:
        """Rings of its life, and of what is dead, that were not read to their end yet."""
        return self._rings.unfinished if self._rings is not None else 0

    @property
    def processes(self) -> list[Process]:
        """The worker's: those that write its rings; where there are none, the one that is recorded and its children."""
        if self.have_rings and self._rings is not None:
            return self._rings.processes
        pid = self._settings.pid
        if pid is None or not self.alive or self._round % LOOK_ROUNDS != 1:
            return []
        running = (child for child in tree(pid, self._proc) if start_ticks(child, self._proc))
        return [Process(child, {"incarnation": self.incarnation}) for child in running]

    @property
    def have_rings(self) -> bool:
        """Whether any ring of this worker was found at all."""
        return self._rings is not None and self._rings.worker is not None

    def gather(self, now_us: int, final: bool = False) -> Gathered:
        """One round.

        Args:
            now_us: The wall clock.
            final: The log's writer is dead: what its reader still holds back is given too.
        """
        gathered = Gathered()
        if self._rings is not None:
            if self._round % LOOK_ROUNDS == 0 or not self.alive:
                self._rings.look(self._looked)
                self.incarnation = self._rings.incarnation or self.incarnation
            looked, self._looked = self._looked, Drained()
            drained = self._rings.drain(ROUND_RECORDS)
            gathered.rows += drained.rows
            gathered.slots += drained.slots
            gathered.shown += drained.shown
            gathered.at |= drained.at
            gathered.losses += looked.losses + drained.losses
            gathered.notes += [Note("rings", *note) for note in looked.notes + drained.notes]
            gathered.deaths += drained.deaths
            gathered.more |= drained.full
        if self._tail is not None:
            self._tail.now_us = now_us
            self._follow(self._tail, gathered, final)
        self._beside.gather(gathered)
        self._round += 1
        return gathered

    def close(self) -> None:
        """Let go of all sources."""
        if self._rings is not None:
            self._rings.close()
        if self._tail is not None:
            self._tail.close()
        self._beside.close()

    def _place(self) -> str:
        """What tells its streams from those of another worker or another life of the same name on the same node."""
        if self._settings.pid is None:
            return self.worker
        return f"{self._settings.node}/{self._settings.pid}-{self._ticks}"

    def _follow(self, tail: LogTail, gathered: Gathered, final: bool) -> None:
        old = tail.backlog
        lines = tail.finish() if final else tail.rows(ROUND_RECORDS)
        if old:
            gathered.old += lines
        else:
            gathered.rows += lines
        gathered.at |= tail.at()
        gathered.more |= old or len(lines) >= ROUND_RECORDS
        if tail.rotations > self._rotations:
            self._rotations = tail.rotations
            gathered.notes.append(Note("log", "ok", f"{self._settings.log} was rotated or cut; its lines count on"))


def _name(settings: Settings, proc: Path) -> str:
    """What a worker is called whose agent has not said it yet, or that has none."""
    if settings.pid is None:
        return urlsplit(settings.metrics[0]).netloc.rpartition("@")[2]
    return worker_named(settings.pid, proc) or f"{settings.node}:{settings.pid}"
