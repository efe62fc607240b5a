"""`make bench-snapshot`: what allocator snapshots cost, as ratios to a plain pickle.load in the same run."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import bigsnapshot
from benchmarks.cpu import cost, cpu_s, run
from benchmarks.table import Result, show

MILLION = 1_000_000
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
REPEATS = 4


def measure(folder: Path) -> Iterator[Result]:
    """Each ratio as soon as it is known."""
    file, later, small = folder / "a.pickle", folder / "b.pickle", folder / "20k.pickle"
    bigsnapshot.write(file, MILLION)
    bigsnapshot.write(later, MILLION, seed=2, leak=True)
    bigsnapshot.write(small, 20_000)
    snapshot = ["-m", "oomctl", "snapshot"]
    kept = folder / "a.parquet"
    run(["-m", "oomctl", "import", str(file), "-o", str(kept)])
    costs = _together(
        ["-c", LOAD, str(file)],
        [*snapshot, str(file)],
        [*snapshot, "diff", str(file), str(later)],
        [*snapshot, str(kept), "--at", "peak"],
    )
    (load_s, load_mib), (report_s, report_mib), (diff_s, _), (kept_s, _) = costs
    yield Result(f"oomctl snapshot, a million events / pickle.load ({load_s:.1f} s)", report_s / load_s, 1.2)
    yield Result(f"peak resident MiB of that (pickle.load: {load_mib:.0f})", report_mib, 700)
    yield Result("oomctl snapshot diff of two of them / pickle.load", diff_s / load_s, 2.5)
    yield Result("oomctl snapshot --at peak of its import / pickle.load", kept_s / load_s, 0.3)
    yield Result("CPU seconds of oomctl snapshot, 20,000 events", cpu_s([*snapshot, str(small)], REPEATS), 0.8)
    tenth, four = folder / "tenth.pickle", folder / "four.pickle"
    bigsnapshot.write(tenth, MILLION // 10)
    bigsnapshot.write(four, 4 * MILLION)
    (tenth_s, _), (four_s, _) = _together([*snapshot, str(tenth)], [*snapshot, str(four)], repeats=2)
    yield Result("4 million events / 40 times 0.1 million", four_s / (40 * tenth_s), 1.2)


def _together(*commands: Sequence[str], repeats: int = REPEATS) -> list[tuple[float, float]]:
    """(CPU seconds, peak MiB) of each, the best of several rounds: in each round all run, as what else runs may change."""
    rounds = [[cost(command) for command in commands] for _ in range(repeats)]
    return [min(each) for each in zip(*rounds, strict=True)]


def main() -> int:
    """Print the table; 1 if a limit is missed."""
    with tempfile.TemporaryDirectory(prefix="oomctl-bench-") as folder:
        return show(measure(Path(folder)), digits=2)


if __name__ == "__main__":
    sys.exit(main())
