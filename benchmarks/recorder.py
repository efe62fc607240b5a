"""What the recorder costs beside a busy worker: CPU, memory, and bytes on disk. `python -m benchmarks.recorder`."""

import os
import random
import tempfile
import time
from pathlib import Path

from oomctl.collectors.agent import layout
from oomctl.collectors.recorder.archive import pack
from oomctl.collectors.recorder.loop import ROUND_S, Recorder
from oomctl.collectors.recorder.settings import Settings
from tests.recorder.stand_in import NODE, Time, Worker, write

STEPS_PER_S = 50
ROUNDS = 600


def work(rings: Path, changes_per_s: int, go: int, done: int) -> None:
    """One second of a worker for each byte that comes; figures vary as a batch of 64 requests makes them."""
    worker, draw, step = Worker(rings, capacity=65_536), random.Random(1), 0
    while os.read(go, 1):
        for _ in range(STEPS_PER_S):
            step += 1
            used = draw.randrange(8000, 9000)
            write(
                worker.ring, layout.STEP, step_id=step, prefill_tokens=draw.choice((0, 0, 0, 512)), cached_tokens=0,
                decode_tokens=draw.randrange(60, 64), running_requests=draw.randrange(60, 64), logits_positions=64,
                waiting_requests=draw.randrange(5), duration_us=draw.randrange(18_000, 22_000),
            )  # fmt: skip
            write(
                worker.ring, layout.KV_POOL, tier="device", block_size_tokens=16, total_blocks=10_000, used_blocks=used,
                free_blocks=10_000 - used, bytes_per_block=2 << 20, total_tokens=160_000, allocated_blocks=step * 4,
                freed_blocks=step * 4 - used, preempted_requests=0, preempted_tokens=0, recomputed_tokens=0,
                prefix_hit_tokens=step * 7,
            )  # fmt: skip
        for _ in range(changes_per_s):
            write(
                worker.ring, layout.REQUEST, event="blocks_changed", sampled_by="sample", sample_weight=2.0, step_id=step,
                prompt_tokens=800, cached_tokens=0, max_output_tokens=512, scheduled_tokens=1, kv_blocks=60,
                kv_blocks_delta=1, computed_tokens=900 + step % 400, output_tokens=100,
                request_id=f"cmpl-{draw.getrandbits(64):016x}-0",
            )  # fmt: skip
        os.write(done, b"x")


def measure(folder: Path, changes_per_s: int) -> tuple[float, int, int, int]:
    """(CPU seconds per round, resident bytes, bytes in segments, bytes packed) after ROUNDS seconds of work."""
    (go, going), (told, done) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(going)
        work(folder / "rings", changes_per_s, go, done)
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
    for _ in range(ROUNDS):
        second()
        stands.now_s += ROUND_S
        begun_s = time.process_time()
        beside.round()
        spent_s += time.process_time() - begun_s
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    stands.now_s += 601
    beside.round()
    segments = sum(path.stat().st_size for path in (folder / "rec" / "live").iterdir())
    pack(folder / "rec")
    packed = sum(path.stat().st_size for path in (folder / "rec" / "hours").iterdir())
    os.close(going)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return spent_s / ROUNDS, resident, segments, packed


def main() -> None:
    """Print the figures; a block change's is the difference between a run with 10 a second and one without."""
    found = []
    for changes in (0, 10):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(Path(folder), changes))
    (cpu_s, resident, live, packed), (_, _, live_both, packed_both) = found
    steps, changes = STEPS_PER_S * ROUNDS, 10 * ROUNDS
    print(f"CPU: {cpu_s / ROUND_S:.2%} of a core at {STEPS_PER_S} steps/s, {cpu_s / STEPS_PER_S / 2 * 1e6:.0f} us a record")
    print(f"resident: {resident / 1e6:.0f} MB")
    print(f"a step and its pool: {live / steps:.0f} B in a segment, {packed / steps:.1f} B packed")
    print(f"a block change: {(live_both - live) / changes:.0f} B, {(packed_both - packed) / changes:.1f} B packed")
    print(f"a day at {STEPS_PER_S} steps/s and 10 changes/s: {packed_both / ROUNDS * 86400 / 1e6:.0f} MB packed")


if __name__ == "__main__":
    main()
