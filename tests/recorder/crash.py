"""Kills a recorder and a worker with SIGKILL, again and again, and checks what they left. Run as a program: it forks.

    python -m tests.recorder.crash FOLDER TRIALS SEED

Both are forked from this process, so a trial takes milliseconds. What the recorder has written it tells through shared
memory only after the write returned: the last flush. Prints one JSON object: what was made, kept and lost.
"""

import json
import mmap
import os
import random
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oomctl.collectors.agent.reader import read_ring, ring_paths
from oomctl.collectors.recorder.folder import Folder
from oomctl.collectors.recorder.live_reader import LiveReader
from oomctl.collectors.recorder.loop import Recorder
from oomctl.collectors.recorder.settings import Settings
from oomctl.collectors.recorder.store import Store
from tests.recorder.stand_in import NODE, Worker

CAPACITY = 512
NEVER_S = 1e9


def forked(body: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    return pid


def work(rings: Path, seed: int) -> None:
    """Steps, now and then a text of several slots, in bursts that a recorder may fall behind."""
    draw = random.Random(seed)
    worker = Worker(rings, capacity=CAPACITY)
    for step_id in range(100_000):
        worker.step(step_id)
        if step_id % 7 == 0:
            worker.oom("x" * draw.randrange(1500), fatal=False)
        if draw.random() < 0.3:
            time.sleep(draw.random() / 1000)


def record(root: Path, rings: Path, pid: int, flushed: mmap.mmap) -> None:
    beside = Recorder(Settings(root=root, pid=pid, node=NODE, rings=rings, settle_s=NEVER_S, keep_rings=True))
    end = time.monotonic() + 5
    while time.monotonic() < end:
        beside.round()
        told = sum(value[1] for key, value in beside._store.state.items() if key.startswith("ring:") and value != "done")
        done = sum(value == "done" for value in beside._store.state.values() if isinstance(value, str))
        flushed[:16] = struct.pack("<QQ", told, done)
        time.sleep(0.0005)


def trial(root: Path, rings: Path, draw: random.Random, flushed: mmap.mmap) -> None:
    """One worker and one recorder, each killed at some instant."""
    flushed[:16] = bytes(16)
    seed = draw.randrange(1 << 30)
    worker = forked(lambda: work(rings, seed))
    recorder = forked(lambda: record(root, rings, worker, flushed))
    if draw.random() < 0.8:  # else while it begins
        end = time.monotonic() + 5
        while not any(flushed[:16]) and time.monotonic() < end:
            time.sleep(0.0005)
    victims = [worker, recorder]
    draw.shuffle(victims)
    for victim in victims:
        time.sleep(draw.random() * 0.02)
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
    told, done = struct.unpack("<QQ", flushed[:16])
    state = Folder(root).resume().state
    kept = sum(value[1] for key, value in state.items() if key.startswith("ring:") and value != "done")
    ended = sum(value == "done" for value in state.values() if isinstance(value, str))
    assert (kept, ended) >= (told, done) or ended > done, f"lost after a flush: {told}, {done} told; {kept}, {ended} kept"


def verify(root: Path, rings: Path) -> dict[str, Any]:
    """Every file is readable; for each ring: kept + reported as lost = made; no row is there twice."""
    kept: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    seen: set[tuple[str, int]] = set()
    torn_files = 0
    for path in Folder(root).segments():
        with path.open("rb") as file:
            reader = LiveReader(file, path.name)
            for frame in reader.frames():
                for row in frame.all_rows():
                    key = (row["stream"], row["seq"])
                    assert key not in seen, f"twice: {key}"
                    seen.add(key)
                    if row["source"] == "agent":
                        kept[row["stream"]] += 1
                    elif row["kind"] == "loss" and row["loss"]["detail"].startswith(f"{NODE}/"):
                        lost[row["loss"]["detail"]] += row["loss"]["count"]
        torn_files += reader.torn_bytes > 0
    made: Counter[str] = Counter()
    for path in ring_paths(rings):
        _, batch = read_ring(path)
        made[f"{NODE}/{path.stem}"] = max((record.seq for record in batch.records), default=0) + batch.torn
    for stream in made:
        assert kept[stream] + lost[stream] == made[stream], f"{stream}: {kept[stream]} + {lost[stream]} != {made[stream]}"
    return {
        "made": made.total(), "kept": kept.total(), "lost": lost.total(), "rings": len(made), "torn_files": torn_files,
        "segments": len(Folder(root).segments()),
    }  # fmt: skip


def main(folder: Path, trials: int, seed: int) -> None:
    draw = random.Random(seed)
    root, rings = folder / "rec", folder / "rings"
    rings.mkdir(parents=True)
    flushed = mmap.mmap(-1, 16)
    for _ in range(trials):
        trial(root, rings, draw, flushed)
    last = Recorder(Settings(root=root, pid=os.getpid(), node=NODE, rings=rings, settle_s=NEVER_S, keep_rings=True))
    while last.round() or last._sources.rings:
        pass
    assert isinstance(last._store, Store)
    last._store.close()
    print(json.dumps(verify(root, rings)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
