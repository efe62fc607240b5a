"""Draining a worker's rings: every ring of its processes, those that come later, and those that the dead left."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomctl.collectors.agent.decode import decode, offset_of
from oomctl.collectors.agent.header import Header
from oomctl.collectors.agent.kinds import KV_POOL
from oomctl.collectors.agent.layout import SLOT_BYTES, SLOT_HEAD
from oomctl.collectors.agent.process import start_ticks
from oomctl.collectors.agent.reader import Batch, Position, RingReader, ring_paths
from oomctl.collectors.agent.rows import common_columns, to_row
from oomctl.collectors.live.host.sampler import Process
from oomctl.collectors.live.processes import PROC, local_pid, tree
from oomctl.collectors.recorder.drained import Death, Drained
from oomctl.collectors.recorder.failure import completed
from oomctl.collectors.recorder.leftovers import Leftovers
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.slots import CODE, KEPT, kept
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import Row

KEY = "ring:"
_PREEMPTED = offset_of(KV_POOL, "preempted_requests")
DONE = "done"


@dataclass
class _Followed:
    reader: RingReader
    header: Header
    stream: str
    common: dict[str, Any]
    pid: int | None
    counters: tuple[int, int]
    last_us: int | None = None
    alive: bool = False
    preempted: bytes = b""


class RingSet:
    """The rings of one worker in a folder.

    Args:
        folder: Where the agent writes them.
        pid: A process of the worker, by which it is told from others in the same folder.
        node: This host.
        state: What an earlier recorder knew.
        leftovers: Takes those that were read to their end.
        proc: The process file system.

    Attributes:
        worker: Whose rings they are, once that is known.
        life: Which of its lives our process is of, once that is known.
    """

    def __init__(self, folder: Path, pid: int, node: str, state: State, leftovers: Leftovers, proc: Path = PROC) -> None:
        self.worker: str | None = None
        self.life: str | None = None
        self._leftovers = leftovers
        self._folder = folder
        self._pid = pid
        self._node = node
        self._proc = proc
        self._known = {key: value for key, value in state.items() if key.startswith(KEY)}
        self._followed: dict[Path, _Followed] = {}
        self._others: set[Path] = set()

    @property
    def headers(self) -> list[Header]:
        """Of the rings that are followed."""
        return [ring.header for ring in self._followed.values()]

    @property
    def processes(self) -> list[Process]:
        """Those that write the rings, as far as they are on this host and lived at the last round."""
        named = ("incarnation", "rank", "rank_name", "device_id")
        found = {}
        for ring in self._followed.values():
            if ring.pid is not None and ring.alive:
                found[ring.pid] = Process(ring.pid, {name: ring.common[name] for name in named})
        return list(found.values())

    @property
    def unfinished(self) -> int:
        """Rings that still belong to what is recorded: all but those that another life of the worker goes on writing."""
        return sum(not ring.alive or self.life in (None, ring.header.incarnation) for ring in self._followed.values())

    @property
    def incarnation(self) -> str | None:
        """The newest life of which a process is followed."""
        named = [ring.header for ring in self._followed.values() if ring.pid is not None and ring.header.incarnation]
        newest = max(named, key=lambda header: header.realtime_ns, default=None)
        return None if newest is None else newest.incarnation

    def look(self, found: Drained) -> None:
        """Look for rings that are new in the folder; one that cannot be read is told once."""
        fresh = [path for path in ring_paths(self._folder) if path not in self._followed and path not in self._others]
        opened: list[tuple[Path, RingReader]] = []
        for path in fresh:
            known = self._known.get(KEY + path.stem)
            try:
                if known == DONE:
                    self._done(path)
                    continue
                opened.append((path, RingReader(path, Position(*known[:4]) if known else None)))
            except OomctlError as error:
                self._others.add(path)
                found.notes.append(("failed", error.what))
        if self.life is None:
            self._recognise([reader.header for _, reader in opened])
        for path, reader in opened:
            header = reader.header
            if header.worker != self.worker:
                reader.close()
                if self.worker is not None:
                    self._others.add(path)
                continue
            stream = f"{self._node}/{path.stem}"
            pid = local_pid(header.pid, header.start_ticks, self._proc)
            dropped, errors = self._known.get(KEY + path.stem, (0, 0))[-2:]
            common = common_columns(header, stream, self._node)
            self._followed[path] = _Followed(reader, header, stream, common, pid, (dropped, errors))

    def drain(self, limit: int) -> Drained:
        """What the rings hold that was not read yet, at most about `limit` records of each."""
        found = Drained()
        for path, ring in list(self._followed.items()):
            if ring.reader.is_cut:
                found.notes.append(("failed", f"the ring was cut short, which loses what it held ({path})"))
                ring.reader.close()
                del self._followed[path]
                self._others.add(path)
                continue
            # Asked before reading: what was written before the death is there then.
            ring.alive = ring.pid is not None and start_ticks(ring.pid, self._proc) == ring.header.start_ticks
            batch = ring.reader.read(final=not ring.alive, limit=limit, as_slots=KEPT)
            full = len(batch.records) + sum(len(slots) for _, slots in batch.slots) // SLOT_BYTES >= limit
            found.full |= full
            self._take(path, ring, batch, found)
            if not ring.alive and not full:
                self._end(path, ring, found)
        return found

    def close(self) -> None:
        """Let go of all rings."""
        for ring in self._followed.values():
            ring.reader.close()
        self._followed.clear()

    def _take(self, path: Path, ring: _Followed, batch: Batch, found: Drained) -> None:
        for record in batch.records:
            row = completed(to_row(record, ring.common))
            found.rows.append(row)
            ring.last_us = record.ts
        for offset_ns, slots in batch.slots:
            found.slots.append(kept(ring.common, offset_ns, slots))
            found.shown += self._shown(ring, offset_ns, slots)
            last_us = (SLOT_HEAD.unpack_from(slots, len(slots) - SLOT_BYTES)[5] + offset_ns) // 1000
            ring.last_us = max(last_us, ring.last_us or last_us)
        header = ring.reader.header
        counters = (header.dropped, header.errors)
        for reason, count in (
            ("overwritten in the ring before it was read", batch.overwritten),
            ("torn at the kill", batch.torn),
            ("of a kind that this oomctl does not know", batch.unknown),
            ("could not be written to the ring", counters[0] - ring.counters[0]),
        ):
            if count > 0:
                found.losses.append((reason, count, ring.stream))
        if counters[1] > ring.counters[1]:
            found.notes.append(("degraded", f"{counters[1] - ring.counters[1]} errors inside the agent of {ring.stream}"))
        for step_ns in batch.clock_steps_ns:
            found.notes.append(("degraded", f"the wall clock of {ring.stream} jumped by {step_ns / 1e9:.3f} s"))
        if batch.records or batch.slots or counters != ring.counters or batch.torn or batch.overwritten or batch.unknown:
            found.at[KEY + path.stem] = [*ring.reader.position, *counters]
        ring.counters = counters

    def _shown(self, ring: _Followed, offset_ns: int, slots: bytes) -> Iterator[Row]:
        """Rows of the pool figures in which the count of preempted requests is another than before."""
        for start in range(0, len(slots), SLOT_BYTES):
            if slots[start + CODE] == KV_POOL.code:
                preempted = slots[start + _PREEMPTED.start : start + _PREEMPTED.stop]
                if preempted != ring.preempted:
                    ring.preempted = preempted
                    slot = slots[start : start + SLOT_BYTES]
                    yield to_row(decode(KV_POOL, slot, b"", offset_ns, cut=False), ring.common)

    def _done(self, path: Path) -> None:
        """An earlier recorder read it to its end."""
        self._others.add(path)
        reader = RingReader(path)
        self._leftovers.add(path, KEY + path.stem, reader.header, seen=False)
        reader.close()

    def _end(self, path: Path, ring: _Followed, found: Drained) -> None:
        found.deaths.append(Death(ring.reader.header, ring.last_us, ring.pid))
        found.at[KEY + path.stem] = DONE
        self._leftovers.add(path, KEY + path.stem, ring.header, seen=ring.pid is not None)
        ring.reader.close()
        del self._followed[path]
        self._others.add(path)

    def _recognise(self, headers: list[Header]) -> None:
        """Whose rings they are: of our process or of its family; where none is, of the only worker there is."""
        family = tree(self._pid, self._proc) if headers else []
        for header in headers:
            if local_pid(header.pid, header.start_ticks, self._proc) in family or header.pid == self._pid:
                self.worker = self.worker or header.worker
                self.life = header.incarnation if header.worker == self.worker else None
                return
        workers = {header.worker for header in headers}
        if self.worker is None and len(workers) == 1:
            self.worker = workers.pop()
