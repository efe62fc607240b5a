"""What only a GPU can show, in under four minutes: `python -m benchmarks.gpu_smoke OUT`, on a machine with torch and one.

Each part is a process of its own: the agent's own pieces in it, a real failure of PyTorch's allocator, then the recorder
and triage over what it left. The allocator is held to LIMIT_BYTES, so a large card takes no longer than a small one. OUT
gets, for each part, the incident file, the verdict and a snapshot, all small enough to be kept as fixtures.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomctl.collectors.agent import failure, memory, observer
from oomctl.collectors.agent.guard import Guard
from oomctl.collectors.agent.header import Header
from oomctl.collectors.agent.kinds import GRAPH, LIFECYCLE, MANIFEST, PHASES, STEP
from oomctl.collectors.agent.layout import NULL_I32, NULL_U8, pack_texts
from oomctl.collectors.agent.reader import read_ring, ring_paths
from oomctl.collectors.agent.rings import Identity, Rings
from oomctl.collectors.agent.settings import Settings, this_process

MIB = 1 << 20
LIMIT_BYTES = 2048 * MIB
BLOCK_BYTES = 9 * MIB
"""Two of them share a segment of 20 MiB; a larger one would have a segment of its own, which is given back whole."""
HELD = 80
"""Segments of the fragmented pool: half of 1600 MiB is free, no hole is larger than 11 MiB."""
WANTED_BYTES = 640 * MIB
"""More than is left under the limit, less than the holes together."""
PROMPT_TOKENS = 2048
PART_S = 50


@dataclass
class Worker:
    """One part's process, as an engine's worker with the agent in it."""

    torch: Any
    rings: Rings
    guard: Guard = field(init=False)
    failed: bool = False

    def __post_init__(self) -> None:
        self.guard = Guard(self.rings, lambda: None)

    def phase(self, *phases: str) -> None:
        """Note phases, each with the memory there is."""
        ring = self.rings.mine()
        for phase in phases:
            ring.write(LIFECYCLE, pack_texts(None), PHASES.index(phase), NULL_I32, NULL_I32)
            memory.write_all(ring)

    def step(self, step_id: int, prompt_tokens: int) -> None:
        """A batch begins."""
        self.rings.mine().write(STEP, b"", step_id, prompt_tokens, 7, NULL_I32, 8, 0, NULL_I32, NULL_I32, NULL_U8)

    def take(self, size: int) -> Any:
        """Bytes of the device."""
        return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")

    def expect_failure(self, work: Callable[[], object], requests: int = 0) -> None:
        """It has to run out of memory; what was raised is recorded as the agent records it."""
        try:
            work()
        except Exception as error:
            self.failed = True
            failure.record(self.rings.mine(), error, fatal=True, requests=requests)
            memory.write_all(self.rings.mine())
        if not self.failed:
            raise SystemExit("it was to run out of memory and did not")


def fragment(worker: Worker) -> list[Any]:
    """Every second of many blocks is given back: half of each segment is free, and none can be returned."""
    blocks = [worker.take(BLOCK_BYTES) for _ in range(2 * HELD)]
    return blocks[::2]


def counters(worker: Worker) -> None:
    """The allocator's counters in the ring are what torch says, byte for byte."""
    held = [worker.take(100 * MIB), worker.take(3 * MIB)]
    memory.write_all(worker.rings.mine())
    stats, (free, total) = worker.torch.cuda.memory_stats(), worker.torch.cuda.mem_get_info()
    found = {record.kind.name: record.values for _, record in _records(worker.rings.folder)}
    allocator, device = found["allocator"], found["device"]
    for ours, theirs in (
        ("allocated_bytes", "allocated_bytes.all.current"), ("reserved_bytes", "reserved_bytes.all.current"),
        ("num_alloc_retries", "num_alloc_retries"), ("num_ooms", "num_ooms"),
    ):  # fmt: skip
        assert allocator[ours] == stats[theirs], (ours, allocator[ours], stats[theirs])
    assert allocator["allocated_bytes"] >= 103 * MIB
    # Others may use the device meanwhile.
    assert device["total_bytes"] == total
    assert abs(device["free_bytes"] - free) < 512 * MIB
    del held


def fragmentation(worker: Worker) -> None:
    """Enough is free in the allocator, in pieces: a prompt that was computed before is one too many now."""
    worker.phase("ready", "serving")
    worker.step(1, PROMPT_TOKENS)
    worker.take(WANTED_BYTES)
    worker.step(2, 0)
    held = fragment(worker)
    memory.write_all(worker.rings.mine())
    worker.step(3, PROMPT_TOKENS)
    worker.expect_failure(lambda: worker.take(WANTED_BYTES), requests=8)
    del held


def graph_capture(worker: Worker) -> None:
    """A capture's private pool takes what was left."""
    worker.phase("kv_allocated", "capturing")
    pool = worker.take(LIMIT_BYTES - 600 * MIB)
    cuda = worker.torch.cuda

    def capture() -> None:
        for shape in (8, 4, 2, 1):
            before = memory.used_bytes()
            graph = cuda.CUDAGraph()
            with cuda.graph(graph):
                kept.append((graph, worker.take(200 * MIB)))
            after = memory.used_bytes()
            tail = pack_texts(str(shape), None, "FULL")
            worker.rings.mine().write(GRAPH, tail, before, after, after - before, NULL_U8)

    kept: list[Any] = []
    worker.expect_failure(capture)
    del pool


def expandable(worker: Worker) -> None:
    """The same holes in expandable segments: what did not fit fits now; then the memory is really used up."""
    worker.phase("ready", "serving")
    held = fragment(worker)
    held.append(worker.take(WANTED_BYTES))
    worker.expect_failure(lambda: held.extend(worker.take(BLOCK_BYTES) for _ in range(LIMIT_BYTES // BLOCK_BYTES)))


PARTS: dict[str, tuple[Callable[[Worker], None], str | None]] = {
    "counters": (counters, None),
    "fragmentation": (fragmentation, "fragmentation"),
    "graph_capture": (graph_capture, "warm_up"),
    "expandable": (expandable, ""),
}
"""Each part, and the class that triage has to say: "" for any but fragmentation, None where there is no failure."""


def work(part: str, folder: Path) -> None:
    """Be the worker of one part."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    torch.cuda.init()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(LIMIT_BYTES / total)
    settings = Settings(folder, "smoke", this_process(), snapshot=True)
    engine = f"torch {torch.__version__}"
    worker = Worker(torch, Rings(folder, Identity("worker", "smoke", settings.incarnation, engine, 0, "", 0)))
    worker.rings.mine().write(MANIFEST, pack_texts("engine", "name", "torch"))
    worker.rings.mine().write(MANIFEST, pack_texts("engine", "version", str(torch.__version__)))
    observer.attach(worker.rings, worker.guard, settings)
    worker.phase("loading", "weights_loaded")
    PARTS[part][0](worker)
    print(json.dumps({"failed": worker.failed}))
    sys.stdout.flush()
    # As a worker ends that memory killed: no finalizer marks its rings as closed.
    os._exit(0)


def check(part: str, out: Path) -> dict[str, Any]:
    """Run one part, record it, triage it.

    Raises:
        AssertionError: If anything is not as it has to be.
    """
    folder = out / part
    rings = folder / "rings"
    rings.mkdir(parents=True)
    option = "expandable_segments:True" if part == "expandable" else "expandable_segments:False"
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": option, "PYTORCH_ALLOC_CONF": option}
    _python(environment, "-m", "benchmarks.gpu_smoke", "--work", part, str(rings))
    header, records = _headers(rings)[0], [record for _, record in _records(rings)]
    assert header.errors == 0 and header.dropped == 0, "the agent failed inside"
    expected = PARTS[part][1]
    result: dict[str, Any] = {"engine": header.engine, "records": len(records)}
    if expected is None:
        return result
    observed = [
        record.values for record in records if record.kind.name == "oom" and record.values["error_type"] == "observed"
    ]
    assert observed, "the allocator's observer was not called"
    assert list(rings.glob("snapshot-*.pickle")), "no snapshot was written"
    # Its own server's process is gone: what a dead worker left is taken up by --rings.
    recording = folder / "recording"
    _oomctl("attach", str(header.pid), "-o", str(recording), "--rings", str(rings))
    (incident,) = (recording / "incidents").glob("*.parquet")
    incident.rename(folder / "incident.parquet")
    verdicts = json.loads(_oomctl("triage", str(folder / "incident.parquet"), "--json"))
    (folder / "verdict.json").write_text(json.dumps(verdicts, indent=2), encoding="utf-8")
    verdict = verdicts["incidents"][0]
    result |= {"verdict": verdict["verdict"], "class": verdict["class"], "observed": len(observed)}
    assert (verdict["verdict"], verdict["resource"]) == ("oom", "device"), result
    assert verdict["class"] == expected if expected else verdict["class"] != "fragmentation", result
    return result


def _oomctl(*words: str) -> str:
    return _python(dict(os.environ), "-m", "oomctl", *words)


def _python(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=PART_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}: status {done.returncode}\n{done.stderr[-4000:]}"
    return done.stdout


def _records(rings: Path) -> list[tuple[Header, Any]]:
    found = [read_ring(path, final=False) for path in ring_paths(rings)]
    return [(header, record) for header, batch in found for record in batch.records]


def _headers(rings: Path) -> list[Header]:
    return [read_ring(path)[0] for path in ring_paths(rings)]


def main(out: Path) -> int:
    """All parts; 1 if one is not as it has to be."""
    missed = 0
    for part in PARTS:
        try:
            print(f"{part:<14} yes  {json.dumps(check(part, out))}", flush=True)
        except (AssertionError, ValueError, subprocess.TimeoutExpired) as error:
            missed = 1
            print(f"{part:<14} NO   {error}", flush=True)
    return missed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], Path(sys.argv[3]))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else scratch)))
