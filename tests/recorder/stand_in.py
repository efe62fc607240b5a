"""A stand-in for a worker, with the agent's real rings; and a recorder beside it, whose time the test makes."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomctl.collectors.agent.kinds import KV_POOL, LIFECYCLE, OOM, PHASES, STACK, STEP
from oomctl.collectors.agent.layout import RecordKind, pack_texts
from oomctl.collectors.agent.process import boot_id, start_ticks
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.rings import Identity, Rings
from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.contents import load
from oomctl.collectors.recorder.folder import Folder
from oomctl.collectors.recorder.loop import Recorder
from oomctl.collectors.recorder.settings import Settings
from oomctl.schemas import storage
from oomctl.schemas.errors import OomctlError

NODE = "node1"
START_US = 1_790_000_000_000_000


def write(ring: Ring, kind: RecordKind, **fields: Any) -> None:
    """A record by the names of its fields; those left out are NULL."""
    values = []
    for packed, null in zip(kind.values, kind.nulls, strict=True):
        value = fields.pop(packed.name, None)
        if value is None:
            values.append(null)
        else:
            values.append(
                packed.values.index(str(value).lower() if isinstance(value, bool) else value) if packed.values else value
            )
    texts = [fields.pop(name, None) for name in kind.texts]
    assert not fields, f"{kind.name} has no {fields}"
    ring.write(kind, pack_texts(*texts), *values)


class Worker:
    """Rings of one process that plays all parts of an engine."""

    def __init__(self, folder: Path, role: str = "core", capacity: int = 4096, worker: str = "w0", rank: int = 0) -> None:
        folder.mkdir(exist_ok=True)
        life = f"{boot_id()}:1:{start_ticks()}"
        identity = Identity(role, worker, life, engine="vllm 0.33.0", rank=rank, rank_name=f"TP{rank}", device_id=rank)
        self.rings = Rings(folder, identity, capacity)
        self.ring = self.rings.mine()

    def phase(self, *phases: str) -> None:
        for phase in phases:
            assert phase in PHASES
            write(self.ring, LIFECYCLE, phase=phase)

    def step(self, step_id: int, prefill: int = 0, decode: int = 8, used: int = 100, **pool: int) -> None:
        write(self.ring, STEP, step_id=step_id, prefill_tokens=prefill, decode_tokens=decode, running_requests=8)
        write(self.ring, KV_POOL, total_blocks=1000, used_blocks=used, free_blocks=1000 - used, **pool)

    def oom(self, message: str | None = None, **fields: Any) -> None:
        frames = (("core.py", "run_busy_loop"), ("gpu_model_runner.py", "execute_model"))
        for depth, (file, function) in enumerate(frames):
            write(self.ring, STACK, stack_id="s1", depth=depth, file=file, line=1, function=function)
        base = {"resource": "device", "api": "torch", "error_type": "OutOfMemoryError", "fatal": True, "stack_id": "s1"}
        write(self.ring, OOM, message=message, **(base | fields))


@dataclass
class Time:
    """A clock that stands until it is told to go on; `real`: the wall clock is the true one, as that of the rings is."""

    now_s: float = 1000.0
    jumped_us: int = 0
    real: bool = False
    slept: list[float] = field(default_factory=list)

    def clock(self) -> Clock:
        return Clock(
            wall_us=lambda: time.time_ns() // 1000 if self.real else START_US + int(self.now_s * 1e6) + self.jumped_us,
            monotonic_s=lambda: self.now_s,
            cpu_us=lambda: 0,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def recorder(root: Path, rings: Path | None, time: Time, pid: int, proc: Path = Path("/proc"), **settings: Any) -> Recorder:
    node = settings.pop("node", NODE)
    return Recorder(Settings(root=root, pid=pid, node=node, rings=rings, **settings), time.clock(), proc=proc)


def rows(root: Path, sql: str, problems: list[OomctlError] | None = None) -> list[tuple[Any, ...]]:
    """SQL over a recording, as it lies."""
    with storage.connect() as connection:
        load(connection, Folder(root), (problems if problems is not None else []).append)
        return connection.execute(sql).fetchall()
