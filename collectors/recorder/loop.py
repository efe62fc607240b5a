"""The recorder: round after round it takes what the sources have, writes it, and looks whether to freeze."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oomctl.collectors.live.processes import PROC
from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.folder import Folder
from oomctl.collectors.recorder.health import Health
from oomctl.collectors.recorder.host import HOST, HostRows
from oomctl.collectors.recorder.incidents import Incidents
from oomctl.collectors.recorder.jobs import Hook, Jobs
from oomctl.collectors.recorder.live import Frame, State
from oomctl.collectors.recorder.own import RECORDER, Note, OwnRows
from oomctl.collectors.recorder.settings import Outlet, Settings
from oomctl.collectors.recorder.slots import Slots
from oomctl.collectors.recorder.sources import Gathered, Sources
from oomctl.collectors.recorder.store import Store
from oomctl.collectors.recorder.telling import ERROR, INFO, WARNING, Mentioned, tell
from oomctl.collectors.recorder.upkeep import Upkeep
from oomctl.collectors.recorder.watch import Watch
from oomctl.schemas.rows import Row

ROUND_S = 1.0
REPORT_S = 60.0
JUMP_US = 1_000_000
SEEN_US = 60_000_000
"""A death is seen within a round; one whose last record is older was found later."""
WRITER = "oomctl recorder"


class Recorder:
    """Records one worker.

    Args:
        settings: What and how much.
        clock: Time and waiting.
        outlets: Where copies of the rows go.
        proc: The process file system.
        health: Is told of each round.

    Attributes:
        stopping: Set it to end in order.

    Raises:
        OomctlError: If the folder cannot be written to, or another recorder writes there.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        outlets: Sequence[Outlet] = (),
        proc: Path = PROC,
        health: Health | None = None,
    ) -> None:
        self.stopping = False
        self._settings = settings
        self._clock = clock or Clock()
        self._outlets = outlets
        self._health = health or Health(self._clock.monotonic_s)
        folder = Folder(settings.root)
        folder.prepare()
        self._lock = folder.lock()
        resumption = folder.resume()
        state = resumption.state
        self._sources = Sources(settings, state, proc, self._clock)
        worker, life = self._sources.worker, self._sources.incarnation
        self._own = OwnRows(self._sources.common)
        self._host = HostRows(self._sources.common, proc.parent)
        self._streams = {RECORDER: self._own, HOST: self._host}
        for key, stream in self._streams.items():
            stream.resume(state.get(key))
        self._store = Store(folder, resumption, self._clock, (WRITER, worker, settings.node))
        self._watch = Watch(worker, life, state.get("watch"))
        self._jobs = Jobs(self._clock)
        self._hook = Hook(settings.hook, lambda why: self._problems.append(f"hook: {why}")) if settings.hook else None
        self._incidents = Incidents(settings, self._clock, self._jobs, self._hook, state, self._told)
        self._upkeep = Upkeep(settings, self._clock, self._store, self._jobs, self._sources.leftovers, self._told)
        self._problems: list[str] = []
        self._errors = self._told_lost = 0
        self._mentioned = Mentioned()
        self._ended_s: float | None = None
        now_s, ts = self._clock.monotonic_s(), self._clock.wall_us()
        self._clocks = (now_s, ts)
        self._cpu_us = self._clock.cpu_us()
        self._report_s = now_s + REPORT_S
        self._pending = [
            self._own.state(ts, "ok", f"begins to record {worker}" + (f", pid {settings.pid}" if settings.pid else ""))
        ]
        if resumption.torn is not None:
            detail = f"{resumption.torn[1]} bytes at the end of {resumption.torn[0]}"
            self._pending.append(self._own.loss(ts, "frame torn when an earlier recorder died", 1, detail))

    def run(self) -> None:
        """Record until told to stop, or until the worker is gone and everything about its end is kept."""
        try:
            while not self.stopping:
                more = self.round()
                self._health.turned(self._own.lost, self._errors, len(self._store.held or ()), self._store.problem)
                if self.finished:
                    break
                if not more:
                    self._clock.sleep(ROUND_S)
        finally:
            self.close()

    def round(self) -> bool:
        """Take in what there is; True if there is more at once."""
        self._jobs.poll()
        problem = self._store.problem
        if not self._store.retry():
            # Nothing more is taken in: the rings hold it meanwhile, and count what they cannot.
            return False
        if problem is not None:
            self._problems.append(f"could not write for a while: {problem}")
        gathered = self._sources.gather(self._clock.wall_us())
        now_us = self._clock.wall_us()
        rows = self._pending + gathered.old + gathered.rows
        self._pending = []
        rows += self._look(gathered, now_us) + self._report(gathered, now_us)
        self._write(rows, gathered.at, gathered.slots)
        self._upkeep.round()
        self._incidents.due()
        return gathered.more

    @property
    def finished(self) -> bool:
        """Whether the worker is gone, its rings are read to their end, and its incident, if any, is frozen."""
        if self._ended_s is None or self._store.held is not None or self._sources.rings:
            return False
        waited_s = self._clock.monotonic_s() - self._ended_s
        return waited_s >= self._settings.settle_s and not self._incidents.open and not self._jobs.busy

    def close(self) -> None:
        """End in order: take in what there is, freeze what is due, leave a whole segment."""
        self._health.ends()
        try:
            if self._store.retry():
                gathered = self._sources.gather(self._clock.wall_us(), final=not self._sources.alive)
                now_us = self._clock.wall_us()
                rows = self._pending + gathered.old + gathered.rows
                self._pending = []
                rows += self._look(gathered, now_us)
                rows += [*self._report(gathered, now_us), self._own.state(now_us, "ok", "ends in order")]
                self._write(rows, gathered.at, gathered.slots)
            if self._store.held is not None:
                count = len(self._store.held)
                tell(ERROR, "rows.unwritten", f"{count} rows could not be written: {self._store.problem}", rows=count)
            self._store.sync()
            self._upkeep.clear()
            self._incidents.freeze_now()
            self._jobs.finish()
            self._write(self._pending, {})
            if self._hook is not None:
                self._hook.finish()
        finally:
            self._store.close()
            for outlet in self._outlets:
                outlet.close()
            self._sources.close()
            self._host.close()
            os.close(self._lock)

    def _look(self, gathered: Gathered, now_us: int) -> list[Row]:
        """Look beside the worker, and for signs that memory ran out; returns rows of what was seen there, and of deaths."""
        rows = self._host.look(self._sources.processes, now_us)
        self._watch.incarnation = self._sources.incarnation
        signs = self._watch.rows([*gathered.rows, *gathered.shown, *rows], now_us)
        of_deaths, violent = self._watch.deaths(gathered.deaths, now_us)
        signs += of_deaths
        for death in violent:
            # Behind all that it wrote; of one that is long dead, not now either.
            last_us = death.last_us if death.last_us is not None else now_us
            ts = now_us if 0 <= now_us - last_us < SEEN_US else last_us + 1
            detail = f"pid {death.header.pid} ({death.header.role}) is gone"
            rows.append(self._own.ended(ts, death.header.incarnation, detail, self._host.end(death.pid), death.header))
        if self._ended_s is None and not self._sources.alive:
            self._ended_s = self._clock.monotonic_s()
            if not self._sources.have_rings:
                gone = self._watch.gone(now_us)
                signs += gone
                end = self._host.end(self._settings.pid)
                rows += [self._own.ended(now_us, self._sources.incarnation, "the process is gone", end, None) for _ in gone]
        self._incidents.signs(signs)
        for sign in signs:
            told = {"incident.id": sign.incident_id, "reason": sign.reason}
            tell(WARNING, "incident.sign", f"{sign.reason}: incident {sign.incident_id}", **told)
        return rows

    def _report(self, gathered: Gathered, now_us: int) -> list[Row]:
        """Losses and notes of the sources, problems, a wall clock that jumped; once a minute, the recorder's cost."""
        rows = [self._own.loss(now_us, *loss) for loss in gathered.losses]
        for outlet in self._outlets:
            if dropped := outlet.dropped():
                rows.append(self._own.loss(now_us, outlet.drop_reason, dropped, "rows"))
        now_s = self._clock.monotonic_s()
        jumped_us = now_us - self._clocks[1] - int((now_s - self._clocks[0]) * 1e6)
        self._clocks = (now_s, now_us)
        if abs(jumped_us) >= JUMP_US:
            self._problems.append(f"the wall clock jumped by {jumped_us / 1e6:.1f} s")
        problems, self._problems = self._problems, []
        for note in [*gathered.notes, *(Note(RECORDER, "degraded", problem) for problem in problems)]:
            self._errors += note.state != "ok"
            self._mentioned.tell(note)
            rows.append(self._own.told(now_us, note, errors=self._errors))
        if now_s >= self._report_s:
            self._report_s = now_s + REPORT_S
            cpu_us, self._cpu_us = self._clock.cpu_us() - self._cpu_us, self._clock.cpu_us()
            rows.append(self._own.state(now_us, "ok", "records", cost_us=cpu_us, errors=self._errors))
            lost, self._told_lost = self._own.lost - self._told_lost, self._own.lost
            if lost:
                tell(WARNING, "records.lost", f"{lost} records were lost within a minute", records=lost)
        return rows

    def _write(self, rows: list[Row], at: State, slots: Sequence[Slots] = ()) -> None:
        known = self._store.state
        at = at | {key: stream.at() for key, stream in self._streams.items()} | self._incidents.at() | self._upkeep.at()
        at = at | {"watch": dict(self._watch.last), "worker": self._sources.worker}
        at = {key: value for key, value in at.items() if known.get(key) != value}
        frame = Frame(rows=rows, slots=list(slots), at=at)
        if len(frame) or at:
            if not self._store.write(frame):
                tell(ERROR, "write.failed", f"cannot write: {self._store.problem}; the rings hold what comes meanwhile")
            copies = list(frame.all_rows()) if self._outlets else []
            for outlet in self._outlets:
                outlet.offer(copies)

    def _told(self, task: str, result: dict[str, Any]) -> None:
        """What a job did."""
        self._problems += [
            f"{task}: {why}" for why in ([result["error"]] if "error" in result else result.get("problems", ()))
        ]
        ts = self._clock.wall_us()
        if result.get("rows_lost"):
            self._pending.append(self._own.loss(ts, "given up for the budget", result["rows_lost"], "rows of old hours"))
        for name in result.get("incidents_lost", ()):
            self._pending.append(self._own.loss(ts, "given up for the budget", 1, f"incident {name}"))
        if "removed" in result:
            detail = f"removed {result['removed']} rings of dead processes, {result['bytes'] >> 10} KiB, read to their end"
            self._pending.append(self._own.state(ts, "ok", detail))
        if "incident" in result:
            self._pending.append(self._own.state(ts, "ok", f"froze incident {result['incident']}: {result['rows']} rows"))
            told = {"incident.id": result["incident"], "rows": result["rows"], "file": str(result["file"])}
            tell(INFO, "incident.frozen", f"wrote {result['file']}", **told)
