"""The fleet that `benchmarks.fleet` judges: what each worker did in each hour, and its recordings."""

import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

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


def expected(told: list[dict[datetime, Hour]]) -> list[tuple[str, datetime, str | None]]:
    """(worker, hour, class) of each planted incident."""
    return sorted(
        (f"w{worker}", begin, find(hour.scenario).label["oom_class"])
        for worker, hours in enumerate(told)
        for begin, hour in hours.items()
        if hour.scenario != "healthy"
    )
