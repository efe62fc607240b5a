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
from pathlib import Path
from typing import Any

from benchmarks.fleet_made import NEW, OLD, PLANTED, SIZES, Size, expected, make, plan
from benchmarks.table import Result, show
from oomctl.fleet.findings import Findings

JOBS = 2
"""Processes that judge."""
MAKERS = 4
"""Processes that make it."""
LIMIT_GROWTH = 1.25
"""CPU time of a worker-hour among all, to one among a tenth of them."""
LIMIT_MS, LIMIT_MIB = 100, 700
"""The first where most hours are quiet: in a small fleet the planted ones are many."""


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
        yield Result("ms of CPU of a worker-hour", 1000 * all_.cpu_s / units, LIMIT_MS if units >= 1_000 else None)
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
