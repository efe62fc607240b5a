"""What the recorder costs beside a busy worker: CPU, memory, and bytes on disk. `make bench-recorder`."""

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import Result, show
from oomctl.collectors.agent import kinds
from oomctl.collectors.recorder.archive import pack
from oomctl.collectors.recorder.loop import ROUND_S, Recorder
from oomctl.collectors.recorder.settings import Settings
from tests.recorder.stand_in import NODE, Time, Worker, write

STEPS_PER_S = 50
ROUNDS = 600
BUSY = (400, 800)
"""Steps and block changes a second: 256 running requests, of which the agent follows 32, each a block further every 16th
step."""
BUSY_ROUNDS = 120
LIMIT_RATIO = 0.02
"""Of a core, while draining BUSY."""
LIMIT_BYTES = 80 * 10**6
"""Resident, while draining."""


@dataclass(frozen=True)
class Cost:
    """What a run cost.

    Attributes:
        cpu_s: A round, which takes a second.
        resident_bytes: Of the recorder.
        live_bytes: In segments.
        packed_bytes: In hours.
        pack_s: CPU time of packing, in a process of its own.
    """

    cpu_s: float
    resident_bytes: int
    live_bytes: int
    packed_bytes: int
    pack_s: float


def work(rings: Path, steps_per_s: int, changes_per_s: int, go: int, done: int) -> None:
    """One second of a worker for each byte that comes; figures vary as a batch of 64 requests makes them."""
    worker, draw, step = Worker(rings, capacity=65_536), random.Random(1), 0
    while os.read(go, 1):
        for _ in range(steps_per_s):
            step += 1
            used = draw.randrange(8000, 9000)
            write(
                worker.ring, kinds.STEP, step_id=step, prefill_tokens=draw.choice((0, 0, 0, 512)), cached_tokens=0,
                decode_tokens=draw.randrange(60, 64), running_requests=draw.randrange(60, 64), logits_positions=64,
                waiting_requests=draw.randrange(5), duration_us=draw.randrange(18_000, 22_000),
            )  # fmt: skip
            write(
                worker.ring, kinds.KV_POOL, tier="device", block_size_tokens=16, total_blocks=10_000, used_blocks=used,
                free_blocks=10_000 - used, bytes_per_block=2 << 20, total_tokens=160_000, allocated_blocks=step * 4,
                freed_blocks=step * 4 - used, preempted_requests=0, preempted_tokens=0, recomputed_tokens=0,
                prefix_hit_tokens=step * 7,
            )  # fmt: skip
        for _ in range(changes_per_s):
            write(
                worker.ring, kinds.REQUEST, event="blocks_changed", sampled_by="sample", sample_weight=2.0, step_id=step,
                prompt_tokens=800, cached_tokens=0, max_output_tokens=512, scheduled_tokens=1, kv_blocks=60,
                kv_blocks_delta=1, computed_tokens=900 + step % 400, output_tokens=100,
                request_id=f"cmpl-{draw.getrandbits(64):016x}-0",
            )  # fmt: skip
        os.write(done, b"x")


def measure(steps_per_s: int, changes_per_s: int, rounds: int) -> Cost:
    """What so many seconds of work cost."""
    with tempfile.TemporaryDirectory() as folder:
        return _measured(Path(folder), steps_per_s, changes_per_s, rounds)


def _measured(folder: Path, steps_per_s: int, changes_per_s: int, rounds: int) -> Cost:
    (go, going), (told, done) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(going)
        work(folder / "rings", steps_per_s, changes_per_s, go, done)
        os._exit(0)

    def second() -> None:
        os.write(going, b"x")
        os.read(told, 1)

    second()
    stands = Time()
    settings = Settings(root=folder / "rec", pid=pid, node=NODE, rings=folder / "rings", settle_s=1e9)
    beside = Recorder(settings, stands.clock())
    beside.round()
    spent_s = 0.0
    for _ in range(rounds):
        second()
        stands.now_s += ROUND_S
        begun_s = time.process_time()
        beside.round()
        spent_s += time.process_time() - begun_s
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    stands.now_s += 601
    beside.round()
    segments = sum(path.stat().st_size for path in (folder / "rec" / "live").iterdir())
    begun_s = time.process_time()
    pack(folder / "rec")
    pack_s = time.process_time() - begun_s
    packed = sum(path.stat().st_size for path in (folder / "rec" / "hours").iterdir())
    os.close(going)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return Cost(spent_s / rounds, resident, segments, packed, pack_s)


def figures() -> Iterator[Result]:
    """Each figure as soon as it is known. A block change costs the difference between runs with and without."""
    busy = measure(*BUSY, BUSY_ROUNDS)
    records = BUSY[0] * 2 + BUSY[1]
    load = f"{BUSY[0]} steps/s and {BUSY[1]} changes/s"
    yield Result(f"CPU at {load}, of a core", 100 * busy.cpu_s, 100 * LIMIT_RATIO, "%")
    yield Result("CPU a record", busy.cpu_s / records * 1e6, unit="us")
    yield Result(f"packing, apart from it, at {BUSY[0]} steps/s, of a core", 100 * busy.pack_s / BUSY_ROUNDS, unit="%")
    yield Result("resident", busy.resident_bytes / 1e6, LIMIT_BYTES / 1e6, "MB")
    yield Result("a day of it, packed", busy.packed_bytes / BUSY_ROUNDS * 86400 / 1e6, unit="MB")
    calm, changing = measure(STEPS_PER_S, 0, ROUNDS), measure(STEPS_PER_S, 10, ROUNDS)
    steps, changes = STEPS_PER_S * ROUNDS, 10 * ROUNDS
    yield Result(f"CPU at {STEPS_PER_S} steps/s, of a core", 100 * calm.cpu_s, unit="%")
    yield Result("a step and its pool, in a segment", calm.live_bytes / steps, unit="B")
    yield Result("a step and its pool, packed", calm.packed_bytes / steps, unit="B")
    yield Result("a block change, in a segment", (changing.live_bytes - calm.live_bytes) / changes, unit="B")
    yield Result("a block change, packed", (changing.packed_bytes - calm.packed_bytes) / changes, unit="B")
    day = changing.packed_bytes / ROUNDS * 86400 / 1e6
    yield Result(f"a day of {STEPS_PER_S} steps/s and 10 changes/s, packed", day, unit="MB")


def main() -> int:
    """Print the figures; 1 if a limit is missed."""
    return show(figures())


if __name__ == "__main__":
    sys.exit(main())
