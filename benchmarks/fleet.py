"""A fleet of recorded worker-hours with planted incidents, judged: `make bench-fleet`; `--tenth`, `--small` for less.

It is made by the scenario generator through the recorder's own writer and `oomctl export --partition`. What was planted
must be found and nothing else, Ray's findings must equal those of local processes, a run that is killed must go on where it
was, a planted regression and repeated crashes must be named, and a worker-hour must not cost more for there being many.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
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
LIMIT_GROWTH = 1.25
"""CPU time of a worker-hour among all, to one among a tenth of them."""


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
    with tempfile.TemporaryDirectory() as scratch:
        recording = record(Path(scratch) / "recording", f"node-{worker // 8}", f"w{worker}", hours)
        return export(recording, Store(str(folder / "rec"))).hours


def command(folder: Path, pattern: str, findings: str, engine: str) -> list[str]:
    """The command line of a run."""
    oomctl = [sys.executable, "-m", "oomctl", "triage", f"{folder}/rec/{pattern}", "--engine", engine, "--json"]
    return [*oomctl, "--jobs", str(JOBS), "--findings", f"{folder}/{findings}"]


def triage(folder: Path, pattern: str, findings: str, engine: str = "local") -> tuple[dict[str, Any], str, float, float]:
    """(summary, what it said, seconds, CPU seconds) of a run."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command(folder, pattern, findings, engine), capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout), done.stderr.strip(), time.monotonic() - began, cpu_s


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


def killed_halfway(folder: Path, pattern: str, findings: str, units: int) -> int:
    """Kill a run once a third of its folders are kept; returns how many units are known then."""
    process = subprocess.Popen(
        command(folder, pattern, findings, "local"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while process.poll() is None and len(list((folder / findings).rglob("*.parquet"))) * 24 * 3 < units:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return len({row["unit"] for row in rows(folder, findings)})


def measure(size: Size, ray: bool) -> Iterator[Result]:
    """Each figure as soon as it is known."""
    told = plan(size)
    with tempfile.TemporaryDirectory(prefix="oomctl-bench-") as name:
        folder = Path(name)
        began = time.monotonic()
        with ProcessPoolExecutor(JOBS) as pool:
            units = sum(pool.map(make, [(folder, worker, hours) for worker, hours in enumerate(told)]))
        print(f"made {units:,} worker-hours in {time.monotonic() - began:.0f} s", file=sys.stderr)
        tenth = f"date=*/node=*/worker=w{'[05]' if size.small < 1000 else '*0'}/**"
        _, said, _, few_cpu_s = triage(folder, tenth, "tenth")
        few = int(said.rpartition("judged ")[2].split()[0].replace(",", ""))
        summary, said, seconds, cpu_s = triage(folder, "**", "local")
        print(f"{said}: {seconds:.0f} s, {cpu_s:.0f} s of CPU", file=sys.stderr)
        found = rows(folder, "local")
        incidents = sorted((row["worker"], row["hour"], row["class"]) for row in found if row["outcome"] == "incident")
        wanted = expected(told)
        missed = len([one for one in wanted if one not in incidents])
        yield Result(f"planted incidents not found, of {len(wanted)} in {units:,} worker-hours", missed, 0)
        yield Result("incidents found and not planted", len([one for one in incidents if one not in wanted]), 0)
        yield Result("ms of CPU of a worker-hour", 1000 * cpu_s / units, 1000)
        yield Result(f"the same, to one among {few:,}", (cpu_s / units) / (few_cpu_s / few), LIMIT_GROWTH)
        named = [(one["old_version"], one["new_version"], one["parts"]["class"]) for one in summary["regressions"]]
        yield Result("planted regressions not named, or others named", float(named != [(OLD, NEW, "warm_up")]), 0)
        repeated = sorted(one["hit_hours"] for one in summary["repeats"])
        yield Result("repeated crashes not told", len(PLANTED) - len(repeated), 0)
        known = killed_halfway(folder, "**", "resumed", units)
        _, said, _, _ = triage(folder, "**", "resumed")
        again = int(said.rpartition("judged ")[2].split()[0].replace(",", ""))
        yield Result(f"units judged twice after a kill at {known:,}", again + known - units, 0)
        yield Result("findings that differ after it", float(rows(folder, "resumed") != found), 0)
        if ray:
            _, said, seconds, cpu_s = triage(folder, "**", "ray", "ray")
            print(f"Ray, {JOBS} workers: {said}: {seconds:.0f} s", file=sys.stderr)
            yield Result("findings of Ray that differ", float(rows(folder, "ray") != found), 0)


def main(words: list[str]) -> int:
    """Print the table; 1 if a limit is missed."""
    chosen = next((SIZES[word] for word in words if word in SIZES), SIZES["--full"])
    return show(measure(chosen, "--no-ray" not in words))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
