"""One part of `make bench-agent`: an engine cannot be made twice in one process.

python -m benchmarks.agent MODEL record|scheduler|step|throughput
"""

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.agent.engines import Load, Switch, make_core, make_metered_core, model_free_step
from benchmarks.agent.figures import interval, share
from benchmarks.agent.meter import Step
from benchmarks.table import Result, show
from oomctl.collectors.agent.kinds import REQUEST
from oomctl.collectors.agent.layout import pack_texts
from oomctl.collectors.agent.reader import read_ring, ring_paths
from oomctl.collectors.agent.rings import Identity, Rings
from oomctl.collectors.agent.settings import TRACKED_REQUESTS

RECORD_LIMIT_US = 1.0
STEP_MEDIAN_LIMIT_US = 35.0
STEP_P99_LIMIT_US = 200.0
STEP_SHARE_LIMIT = 0.005
THROUGHPUT_LIMIT = 0.95
STEPS = 2000
QUADRUPLES = 120
BLOCK_STEPS = 8


def record(_model: Path, folder: Path) -> Iterator[Result]:
    """One request event of the usual id length, packed and put into a ring."""
    ring = Rings(folder, Identity("bench")).mine()
    tail = pack_texts("cmpl-" + "0" * 32 + "-0-" + "0" * 8)

    def write() -> None:
        place, now_ns, spilled = ring.place + 1, time.monotonic_ns(), ring.spilled
        ring.append(REQUEST.pack(REQUEST.word, place, now_ns, spilled, 5, 0, 1.0, 17, 500, 64, 128, 1, 101, 37, 7, 1, tail))

    def nothing() -> None:
        return

    rounds = [_ns_a_call(write) - _ns_a_call(nothing) for _ in range(300)]
    note = f"{len(rounds)} rounds of 1000; the fastest {min(rounds) / 1000:.2f}"
    yield Result("one record: median", statistics.median(rounds) / 1000, RECORD_LIMIT_US, "us", note=note)


def _ns_a_call(call: Callable[[], None], calls: int = 1000) -> float:
    before = time.thread_time_ns()
    for _ in range(calls):
        call()
    return (time.thread_time_ns() - before) / calls


def scheduler(model: Path, folder: Path, running: int = 256, tracked: int = TRACKED_REQUESTS) -> Iterator[Result]:
    """The real scheduler without its model."""
    core, meter = make_metered_core(model, folder, running, tracked)
    steps = meter.run(Load(core, running).refill, lambda: model_free_step(core.scheduler), Switch(folder), STEPS)
    added = [step.added_us for step in steps]
    name = f"hooks, {running} running, {f'about {tracked}' if tracked else 'all'} followed"
    low, high = interval(added)
    note = f"95 % of the median {low:.1f} to {high:.1f}, mean {statistics.fmean(added):.1f}; {_quiet(steps)}"
    yield Result(f"{name}: median", statistics.median(added), STEP_MEDIAN_LIMIT_US, "us", note=note)
    yield Result(f"{name}: p99", share(added, 0.99), STEP_P99_LIMIT_US, "us", note=f"largest {max(added):.0f}")
    yield from _disk(folder)


def scheduler_all(model: Path, folder: Path) -> Iterator[Result]:
    """The same with everybody followed."""
    yield from scheduler(model, folder, tracked=0)


def step(model: Path, folder: Path) -> Iterator[Result]:
    """The whole engine with its model: hooks in core and worker, 16 requests, all followed."""
    core, meter = make_metered_core(model, folder, 16, 0)
    steps = meter.run(Load(core, 16).refill, core.step, Switch(folder), STEPS)
    added = [step.added_us for step in steps]
    middle, of = statistics.median(added), statistics.median(step.whole_us for step in steps)
    low, high = interval(added)
    note = (
        f"{middle:.1f} us (95 % {low:.1f} to {high:.1f}) of {of:.0f} us; p99 {share(added, 0.99):.0f} us; {_quiet(steps)}"
    )
    yield Result("share of the real engine's step", middle / of, STEP_SHARE_LIMIT, note=note)
    yield from _disk(folder)


def _quiet(steps: list[Step]) -> str:
    """How the steps were when the machine was least disturbed: the limits are those of a machine of one's own."""
    quick = sorted(steps, key=lambda step: step.whole_us)[: len(steps) // 10]
    added, whole = (
        statistics.median(values) for values in zip(*((one.added_us, one.whole_us) for one in quick), strict=True)
    )
    of = statistics.median(step.whole_us for step in steps)
    return f"{len(steps)} of {STEPS} steps, of {of:.0f} us; the fastest tenth {added:.1f} us of {whole:.0f} us"


def throughput(model: Path, folder: Path) -> Iterator[Result]:
    """The whole engine, toggled in ABBA quadruples of blocks of steps; the step that obeys the switch is not counted."""
    core = make_core(model, folder, 16, 0)
    load, switch = Load(core, 16), Switch(folder)
    ratios: dict[str, list[float]] = {"clock": [], "CPU time": []}
    for number in range(2 + QUADRUPLES):
        spent = {(name, active): 0 for name in ratios for active in (False, True)}
        for active in (False, True, True, False):
            switch(active)
            load.refill()
            core.step()
            for _ in range(BLOCK_STEPS):
                load.refill()
                clock, cpu = time.perf_counter_ns(), time.thread_time_ns()
                core.step()
                spent["clock", active] += time.perf_counter_ns() - clock
                spent["CPU time", active] += time.thread_time_ns() - cpu
        if number >= 2:
            for name, found in ratios.items():
                found.append(spent[name, False] / spent[name, True])
    for name, found in ratios.items():
        low, high = interval(found)
        note = f"median {statistics.median(found):.4f}, 95 % {low:.4f} to {high:.4f}; {len(found)} ABBA quadruples"
        title = f"throughput with / without, by {name}: lower end"
        yield Result(title, low, THROUGHPUT_LIMIT if name == "CPU time" else None, at_least=True, note=note)


def _disk(folder: Path) -> Iterator[Result]:
    for path in ring_paths(folder):
        header, batch = read_ring(path, final=False)
        steps = sum(found.kind.name == "step" for found in batch.records)
        if header.role == "core" and steps > 100:
            yield Result("bytes in the core's ring", 128 * len(batch.records) / steps, unit="B", note="a step")


PARTS = {part.__name__: part for part in (record, scheduler, scheduler_all, step, throughput)}


def main(model: Path, part: str) -> int:
    """Print one part's figures; 1 if a limit is missed."""
    # On tmpfs, as docs/agent.md has it.
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    scratch = tempfile.TemporaryDirectory(prefix="oomctl-bench-", dir=shared)
    # vLLM prints to stdout; the figures go there.
    with scratch as folder, contextlib.redirect_stdout(sys.stderr):
        figures = list(PARTS[part](model, Path(folder)))
    return show(figures)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
