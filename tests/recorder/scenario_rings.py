"""A scenario as an agent would have recorded it: its facts through the agent's real rings, without a line of log.

The engine core's ring has phases, steps, pool figures and requests; each rank's ring what happened in that process. What
an agent does not see (other processes' memory, kernel messages, refusals) is left out; that requests went back to the
queue, which vLLM does not print, it does see.
"""

from pathlib import Path
from typing import Any

from oomctl.collectors.agent import kinds, layout
from oomctl.collectors.agent.process import boot_id, start_ticks
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.rings import Identity, Rings
from tests.recorder.stand_in import write
from tests.scenarios.entries import Entry, Fact
from tests.scenarios.stage import perform

TOTAL_BLOCKS = 10_000
DIRECT = {
    kind.name: kind
    for kind in (kinds.LIFECYCLE, kinds.MEMORY, kinds.MANIFEST, kinds.GRAPH, kinds.DEVICE, kinds.STACK, kinds.FAULT)
}
ENDS = ("killed", "stopped")


class ScenarioRings:
    """Writes a scenario into rings of this process.

    Args:
        folder: Where the rings go.
        name: Of the catalogue.
        engine: Whose words it would have been.
    """

    def __init__(self, folder: Path, name: str, engine: str | None = None, ranks: int = 1, seed: int = 1) -> None:
        folder.mkdir(exist_ok=True)
        writer = perform(name, seed=seed, ranks=ranks, device_bytes=80 * 2**30, engine=engine)
        self._folder = folder
        self._engine = writer.engine
        self._rings: dict[tuple[int | None, int], Rings] = {}
        self._step = 0
        self._used = 0
        self._running: int | None = None
        for entry in writer.script.entries:
            self._entry(entry)

    def close(self) -> None:
        """The process ended in order."""
        for rings in self._rings.values():
            rings.close()

    def _ring(self, rank: int | None, incarnation: int) -> Ring:
        key = (rank, incarnation)
        if key not in self._rings:
            role = "core" if rank is None else "worker"
            life = f"{boot_id()}:{incarnation}:{start_ticks()}"
            identity = Identity(
                role, worker="w0", incarnation=life, engine=self._engine, rank=-1 if rank is None else rank,
                rank_name="EngineCore" if rank is None else f"TP{rank}", device_id=-1 if rank is None else rank,
            )  # fmt: skip
            self._rings[key] = Rings(self._folder, identity)
        return self._rings[key].mine()

    def _entry(self, entry: Entry) -> None:
        core = self._ring(None, entry.incarnation)
        own = core if entry.rank is None else self._ring(entry.rank, entry.incarnation)
        facts: dict[str, list[dict[str, Any]]] = {}
        for fact in entry.facts:
            facts.setdefault(fact.kind, []).append(fact.fields)
        for usage in facts.get("kv_pool", ()):
            if usage.get("usage_ratio") is not None:
                self._used = round(usage["usage_ratio"] * TOTAL_BLOCKS)
        for report in facts.get("throughput", ()):
            self._report(core, report)
        for fact in entry.facts:
            self._fact(core, own, entry, fact)

    def _report(self, core: Ring, report: dict[str, Any]) -> None:
        running = report["running_requests"]
        if self._running is not None and running < self._running and report["waiting_requests"]:
            write(
                core, kinds.OOM, resource="kv_blocks", fatal=False, requests=self._running - running, api="engine",
                error_type="preemption", message="preempted",
            )  # fmt: skip
        self._running = running
        self._step_done(core, decode_tokens=running, running_requests=running, waiting_requests=report["waiting_requests"])

    def _step_done(self, core: Ring, **fields: Any) -> None:
        self._step += 1
        write(core, kinds.STEP, step_id=self._step, **fields)
        pool = {"total_blocks": TOTAL_BLOCKS, "used_blocks": self._used, "free_blocks": TOTAL_BLOCKS - self._used}
        write(core, kinds.KV_POOL, tier="device", block_size_tokens=16, total_tokens=16 * TOTAL_BLOCKS, **pool)

    def _fact(self, core: Ring, own: Ring, entry: Entry, fact: Fact) -> None:
        fields = dict(fact.fields)
        if fact.kind in DIRECT:
            if fact.kind == "lifecycle" and fields["phase"] in ENDS:
                return
            write(own, DIRECT[fact.kind], **_known(DIRECT[fact.kind], fields))
        elif fact.kind == "step":
            self._step_done(core, **_known(kinds.STEP, fields))
        elif fact.kind == "request":
            write(core, kinds.REQUEST, **_known(kinds.REQUEST, fields | {"sampled_by": "oom", "sample_weight": 1.0}))
        elif fact.kind == "oom" and fields.get("resource") != "host":
            text = fields.get("message") or entry.text
            write(own, kinds.OOM, **_known(kinds.OOM, fields | {"message": str(text)}))


def _known(kind: layout.RecordKind, fields: dict[str, Any]) -> dict[str, Any]:
    """Those that a record of the kind has."""
    names = {packed.name for packed in kind.values} | set(kind.texts)
    return {name: value for name, value in fields.items() if name in names and value is not None}
