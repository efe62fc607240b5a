"""`make bench-snapshot`: what allocator snapshots cost, as ratios to a plain pickle.load in the same run.

With `--full` the growth is measured up to 4 million events (3 GB of memory, 2 GB of disk), else up to one million.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.cpu import cost, cpu_s, run
from benchmarks.table import Result, show

MILLION = 1_000_000
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
REPEATS = 4
STEPS = (0.1, 0.4, 1.0)
MORE_STEPS = (2.0, 4.0)
"""Millions of events."""
SNAPSHOT = ("-m", "oomctl", "snapshot")


def measure(folder: Path, full: bool) -> Iterator[Result]:
    """Each ratio as soon as it is known."""
    file, later, small, kept = folder / "a.pickle", folder / "b.pickle", folder / "20k.pickle", folder / "a.parquet"
    for path, events, more in ((file, MILLION, ()), (later, MILLION, ("--seed", "2", "--leak")), (small, 20_000, ())):
        _make(path, events, *more)
    costs = _together(
        ["-c", LOAD, str(file)],
        [*SNAPSHOT, str(file)],
        [*SNAPSHOT, "diff", str(file), str(later)],
        ["-m", "oomctl", "import", "-f", str(file), "-o", str(kept)],
        [*SNAPSHOT, str(kept), "--at", "peak"],
    )
    (load_s, load_mib), (report_s, report_mib), (diff_s, _), (import_s, _), (kept_s, _) = costs
    yield Result(f"oomctl snapshot, a million events / pickle.load ({load_s:.1f} s)", report_s / load_s, 1.2)
    yield Result(f"peak resident MiB of that (pickle.load: {load_mib:.0f})", report_mib, 700)
    yield Result("oomctl snapshot diff of two of them / pickle.load", diff_s / load_s, 2.5)
    yield Result("oomctl import of it / pickle.load", import_s / load_s, 4)
    yield Result("oomctl snapshot --at peak of its import / pickle.load", kept_s / load_s, 0.3)
    yield Result("CPU seconds of oomctl snapshot, 20,000 events", cpu_s([*SNAPSHOT, str(small)], REPEATS), 0.8)
    yield from _growth(folder, (*STEPS, *MORE_STEPS) if full else STEPS)


def _growth(folder: Path, millions: Sequence[float]) -> Iterator[Result]:
    """Seconds a million more events from one size to the next, by those from the first to the second: 1 is linear."""
    files = {n: folder / f"{n}.pickle" for n in millions}
    for n, path in files.items():
        _make(path, int(n * MILLION))
    costs = dict(zip(millions, _together(*([*SNAPSHOT, str(path)] for path in files.values())), strict=True))
    slopes = {(a, b): (costs[b][0] - costs[a][0]) / (b - a) for a, b in pairwise(millions)}
    first = slopes[millions[0], millions[1]]
    for (a, b), slope in list(slopes.items())[1:]:
        yield Result(f"growth from {a:g} to {b:g} million events / {millions[0]:g} to {millions[1]:g}", slope / first, 1.25)


def _make(path: Path, events: int, *more: str) -> None:
    """In a process of its own: what this one had held would count as its children's peak."""
    run(["-m", "benchmarks.bigsnapshot", str(path), str(events), *more])


def _together(*commands: Sequence[str]) -> list[tuple[float, float]]:
    """(CPU seconds, peak MiB) of each, the best of several rounds: in each round all run, as what else runs may change."""
    rounds = [[cost(command) for command in commands] for _ in range(REPEATS)]
    return [min(each) for each in zip(*rounds, strict=True)]


def main() -> int:
    """Print the table; 1 if a limit is missed."""
    with tempfile.TemporaryDirectory(prefix="oomctl-bench-") as folder:
        return show(measure(Path(folder), "--full" in sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
