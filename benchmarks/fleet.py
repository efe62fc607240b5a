"""A fleet of recorded worker-hours with planted incidents, judged: `make bench-fleet`.

`--tenth` and `--small` make less; `--at=FOLDER` keeps what was made, and goes on with it another time.

It is made by the scenario generator through the recorder's own writer and `oomctl export --partition`. What was planted
must be found and nothing else, Ray's findings must equal those of local processes, a run that is killed must go on where it
was, a planted regression and repeated crashes must be named, and a worker-hour must not cost more for there being many. One
of Ray's workers is killed on its way.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.table import Result, show
from oomctl.fleet.findings import Findings
from oomctl.fleet.store import Store
from tests.fleet.made import BEGIN, FULL_ROWS, SMALL_ROWS, Hour, export, record
from tests.scenarios.catalogue import find

HOURS = 50
"""Of each worker."""
PLANTED = (
    ("warm_up_capture", 12),
    ("load_staging_copy", 8),
    ("prefill_long_prompt", 8),
    ("fragmentation_same_shape", 6),
    ("decode_preemption_storm", 6),
)
"""Scenario, and in how many worker-hours: 40 in all. The first happens under the newer version alone: the regression."""
OLD, NEW = "0.11.0", "0.12.0"
JOBS = 2
"""Processes that judge."""
MAKERS = 4
"""Processes that make it."""
LIMIT_GROWTH = 1.25
"""CPU time of a worker-hour among all, to one among a tenth of them."""
LIMIT_MS, LIMIT_MIB = 100, 700


@dataclass(frozen=True)
class Size:
    """How large a fleet is.

    Attributes:
        small: Worker-hours of a short story.
        full: Worker-hours of a whole hour's story.
    """

    small: int
    full: int


SIZES = {"--tiny": Size(57, 3), "--small": Size(100, 3), "--tenth": Size(1_000, 30), "--full": Size(10_000, 300)}


def plan(size: Size) -> list[dict[datetime, Hour]]:
    """What each worker did in each hour. The second half of each worker's hours is of the newer version."""
    hours = size.small + size.full
    workers = -(-hours // HOURS)
    version = [OLD] * (HOURS // 2) + [NEW] * (HOURS - HOURS // 2)
    rows = [FULL_ROWS if n * size.full // hours != (n + 1) * size.full // hours else SMALL_ROWS for n in range(hours)]
    told = [
        {
            BEGIN + timedelta(hours=n): Hour(version=version[n], rows=rows[at])
            for n in range(HOURS)
            if (at := worker * HOURS + n) < hours
        }
        for worker in range(workers)
    ]
    places = [(worker, begin) for worker, own in enumerate(told) for begin in own]
    newer = [place for place in places if told[place[0]][place[1]].version == NEW]
    names = [name for name, count in PLANTED for _ in range(count)]
    for k, name in enumerate(names):
        room = newer if name == PLANTED[0][0] else places
        worker, begin = room[(k * len(room) // len(names) + 7 * k) % len(room)]
        while told[worker][begin].scenario != "healthy":
            worker, begin = room[(room.index((worker, begin)) + 1) % len(room)]
        told[worker][begin] = Hour(name, told[worker][begin].version, seed=1)
    return told


def make(job: tuple[Path, int, dict[datetime, Hour]]) -> int:
    """Record and export one worker; returns how many files of hours it has."""
    folder, worker, hours = job
    if (done := folder / "made" / str(worker)).exists():
        return int(done.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        recording = record(Path(scratch) / "recording", f"node-{worker // 8}", f"w{worker}", hours)
        written = export(recording, Store(str(folder / "rec"))).hours
    done.write_text(str(written))
    return written


def command(folder: Path, pattern: str, findings: str, engine: str) -> list[str]:
    """The command line of a run."""
    oomctl = [sys.executable, "-m", "oomctl", "triage", f"{folder}/rec/{pattern}", "--engine", engine, "--json"]
    return [*oomctl, "--jobs", str(JOBS), "--findings", f"{folder}/{findings}"]


@dataclass(frozen=True)
class Pass:
    """A run.

    Attributes:
        summary: What it printed.
        said: Its note.
        seconds: By the clock.
        cpu_s: Of it and the processes that it started and waited for; Ray's are others'.
    """

    summary: dict[str, Any]
    said: str
    seconds: float
    cpu_s: float

    @property
    def judged(self) -> int:
        """How many units."""
        return int(self.said.rpartition("judged ")[2].split()[0].replace(",", ""))


def triage(folder: Path, pattern: str, findings: str, engine: str = "local", kill: bool = False) -> Pass:
    """A run; `kill`: one of Ray's workers is killed once a third of the folders are kept."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(
        command(folder, pattern, findings, engine), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if kill:
        print("killed", kill_worker(process, folder, pattern, findings), file=sys.stderr)
    out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(err)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    done = Pass(json.loads(out), err.strip(), time.monotonic() - began, cpu_s)
    print(f"{engine}, {pattern}: {done.said}: {done.seconds:.0f} s, {done.cpu_s:.0f} s of CPU", file=sys.stderr)
    return done


def kill_worker(process: "subprocess.Popen[str]", folder: Path, pattern: str, findings: str) -> str:
    """Kill a process of Ray's that judges, in the middle of a run; returns its name."""
    third_kept(process, folder, pattern, findings)
    while process.poll() is None:
        for pid, name in descendants(process.pid):
            if name.startswith("ray::_each"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return name
        time.sleep(0.01)
    return "nothing"


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """(pid, command line) of the processes that one started, and that these started."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
    for child, name in names.items():
        above = child
        while above in parents and above != pid:
            above = parents[above]
        if above == pid and child != pid:
            yield child, name


def third_kept(process: "subprocess.Popen[Any]", folder: Path, pattern: str, findings: str) -> None:
    """Wait until the findings of a third of the folders are there."""
    folders = len({path.parent for path in (folder / "rec").glob(f"{pattern.removesuffix('/**')}/**/hour-*.parquet")})
    while process.poll() is None and len(list((folder / findings).rglob("findings-*.parquet"))) * 3 < folders:
        time.sleep(0.2)


def rows(folder: Path, findings: str) -> list[dict[str, Any]]:
    """All findings, in order."""
    found = [row for table in Findings(str(folder / findings)).tables() for row in table.to_pylist()]
    return sorted(found, key=lambda row: (row["unit"], str(row["incident"])))


def expected(told: list[dict[datetime, Hour]]) -> list[tuple[str, datetime, str | None]]:
    """(worker, hour, class) of each planted incident."""
    return sorted(
        (f"w{worker}", begin, find(hour.scenario).label["oom_class"])
        for worker, hours in enumerate(told)
        for begin, hour in hours.items()
        if hour.scenario != "healthy"
    )


def killed_halfway(folder: Path, pattern: str, findings: str, engine: str) -> int:
    """Kill a run once a third of its folders are kept; returns how many units are known then."""
    process = subprocess.Popen(
        command(folder, pattern, findings, engine),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    third_kept(process, folder, pattern, findings)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return len({row["unit"] for row in rows(folder, findings)})


def measure(size: Size, ray: bool, at: str | None) -> Iterator[Result]:
    """Each figure as soon as it is known; `at` is where a fleet of that size is kept for another time."""
    told = plan(size)
    with nullcontext(at) if at else tempfile.TemporaryDirectory(prefix="oomctl-bench-") as name:
        folder = Path(name)
        (folder / "made").mkdir(parents=True, exist_ok=True)
        for earlier in ("tenth", "local", "resumed", "ray"):
            shutil.rmtree(folder / earlier, ignore_errors=True)
        began = time.monotonic()
        with ProcessPoolExecutor(MAKERS) as pool:
            units = sum(pool.map(make, [(folder, worker, hours) for worker, hours in enumerate(told)]))
        disk = sum(path.stat().st_size for path in (folder / "rec").rglob("*.parquet"))
        print(f"made {units:,} worker-hours, {disk / 1e6:,.0f} MB, in {time.monotonic() - began:.0f} s", file=sys.stderr)
        tenth = f"date=*/node=*/worker=w{'[05]' if size.small < 1000 else '*0'}/**"
        few, all_ = triage(folder, tenth, "tenth"), triage(folder, "**", "local")
        found = rows(folder, "local")
        incidents = sorted((row["worker"], row["hour"], row["class"]) for row in found if row["outcome"] == "incident")
        wanted = expected(told)
        missed = len([one for one in wanted if one not in incidents])
        yield Result(f"planted incidents not found, of {len(wanted)} in {units:,} worker-hours", missed, 0)
        yield Result("incidents found and not planted", len(incidents) - (len(wanted) - missed), 0)
        yield Result("ms of CPU of a worker-hour", 1000 * all_.cpu_s / units, LIMIT_MS)
        growth = (all_.cpu_s / units) / (few.cpu_s / few.judged)
        yield Result(f"the same, to one among {few.judged:,}", growth, LIMIT_GROWTH)
        peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        yield Result("MiB of the largest process, at its peak", peak_mib, LIMIT_MIB)
        named = [(one["old_version"], one["new_version"], one["parts"]["class"]) for one in all_.summary["regressions"]]
        yield Result("planted regressions not named, or others named", float(named != [(OLD, NEW, "warm_up")]), 0)
        repeated = [one["incidents"] for one in all_.summary["repeats"]]
        yield Result("repeated crashes not told", float(sorted(repeated) != sorted(count for _, count in PLANTED)), 0)
        engine = "ray" if ray else "local"
        known = killed_halfway(folder, tenth, "resumed", engine)
        again = triage(folder, tenth, "resumed", engine)
        yield Result(
            f"units judged twice after a kill at {known:,} of {few.judged:,}", again.judged + known - few.judged, 0
        )
        yield Result("findings that differ after it", float(rows(folder, "resumed") != rows(folder, "tenth")), 0)
        if ray:
            told_by_ray = triage(folder, "**", "ray", "ray", kill=True)
            yield Result("findings of Ray that differ, a worker being killed", float(rows(folder, "ray") != found), 0)
            yield Result("summaries of Ray that differ", float(told_by_ray.summary != all_.summary), 0)


def main(words: list[str]) -> int:
    """Print the table; 1 if a limit is missed."""
    chosen = next((SIZES[word] for word in words if word in SIZES), SIZES["--full"])
    at = next((word.removeprefix("--at=") for word in words if word.startswith("--at=")), None)
    return show(measure(chosen, "--no-ray" not in words, at))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
