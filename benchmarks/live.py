"""What the live sources cost: 8 devices and 4 scraped engines at default rates. `python -m benchmarks.live [--day]`.

The peers are stand-ins in this process and time is simulated, so that CPU is all that is measured; what the stand-ins
themselves cost is taken off.
"""

import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.cpu import BenchmarkError
from benchmarks.table import Result, show
from oomctl.collectors.live.batch import LiveSource
from oomctl.collectors.live.http import Reply
from oomctl.collectors.live.nvml.poller import NvmlPoller
from oomctl.collectors.live.prometheus.scraper import Scraper
from tests.live.clock import Time
from tests.live.fake_nvml import GIB, FakeNvml, Gpu

MINUTES = 10
CORE_LIMIT, MEMORY_LIMIT_MB, DAY_LIMIT_MB = 0.02, 120, 2
ENGINES, DEVICES = 4, 8
HISTOGRAMS, BUCKETS = 20, 18
"""About as many series as a vLLM server of one engine has: 500 (data/engine, metrics_20_srv5_3.txt, has as many)."""
DAY_S, DAY_STEP_S = 86_400, 5


class Page:
    """A vLLM-sized page whose figures move."""

    def __init__(self, seed: int, histograms: int) -> None:
        self._draw, self._histograms, self._served = random.Random(seed), histograms, 0

    def __call__(self, url: str, deadline_s: float) -> Reply:
        """The next page."""
        self._served += 1
        label = 'engine="0",model_name="m"'
        lines = [
            "# TYPE vllm:kv_cache_usage_perc gauge",
            f"vllm:kv_cache_usage_perc{{{label}}} {self._draw.random()}",
            'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="9001"} 1.0',
            "# TYPE vllm:num_preemptions_total counter",
            f"vllm:num_preemptions_total{{{label}}} {self._served}",
        ]
        lines += [f"vllm:num_requests_{word}{{{label}}} {self._draw.randrange(99)}" for word in ("running", "waiting")]
        for number in range(self._histograms):
            # Of some, a few buckets move between two scrapes; most stand.
            lines.append(f"# TYPE vllm:seconds_{number} histogram")
            moved = self._served if number % 5 == 0 else 1
            lines += [f'vllm:seconds_{number}_bucket{{{label},le="{le}.0"}} {moved * (le > 12)}' for le in range(BUCKETS)]
            lines += [f"vllm:seconds_{number}_{word}{{{label}}} {moved}" for word in ("sum", "count")]
        return Reply(200, ("\n".join(lines) + "\n").encode(), False, "text/plain")


def sources(clock: Time, histograms: int) -> list[LiveSource]:
    """What one node has."""
    gpus = [Gpu(f"GPU-{n}", used=70 * GIB, processes=[(100 + n, 60 * GIB), (200 + n, GIB)]) for n in range(DEVICES)]
    made: list[LiveSource] = [NvmlPoller(FakeNvml(gpus), {"worker": "w"}, clock)]
    for number in range(ENGINES):
        url, worker = f"http://127.0.0.1:{8000 + number}/metrics", {"worker": f"w{number}"}
        made.append(Scraper(url, worker, clock, fetch=Page(number, histograms)))
    return made


def simulate(
    seconds: int, histograms: int, step_s: int = 1, each: Callable[[int], None] = lambda second: None
) -> tuple[float, int]:
    """(CPU seconds, rows) of so many simulated seconds, polled every `step_s`."""
    clock, rows = Time(), 0
    running = sources(clock, histograms)
    begun = time.process_time()
    for second in range(0, seconds, step_s):
        clock.now_s += step_s
        clock.cpu_s = time.process_time()
        for source in running:
            batch = source.poll()
            rows += len(batch.rows)
            if batch.losses:
                raise BenchmarkError(f"a page of the stand-in's was not read whole: {batch.losses[0]}")
        for source in running:
            call = getattr(source, "_running", None)
            if call is not None:
                call.wait(10)
        each(second)
    return time.process_time() - begun, rows


def stand_in_cost(seconds: int, histograms: int) -> float:
    """CPU seconds of making the pages alone."""
    pages = [Page(number, histograms) for number in range(ENGINES)]
    begun = time.process_time()
    for _ in range(seconds // 5):
        for page in pages:
            page("", 0.0)
    return time.process_time() - begun


def resident_mb() -> float:
    """Resident now, not at the peak."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def figures(day: bool) -> Iterator[Result]:
    """Each figure as soon as it is known."""
    seconds = MINUTES * 60
    spent, rows = simulate(seconds, HISTOGRAMS)
    spent -= stand_in_cost(seconds, HISTOGRAMS)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    what = f"{DEVICES} devices, {ENGINES} engines"
    yield Result(f"CPU beside {what}, of a core", 100 * spent / seconds, 100 * CORE_LIMIT, "%", note=f"{rows} rows")
    yield Result("peak resident", memory, MEMORY_LIMIT_MB, "MB")
    if day:
        marks: list[float] = []

        def mark(second: int) -> None:
            if second % (DAY_S // 8) == 0:
                marks.append(resident_mb())

        simulate(DAY_S, 1, DAY_STEP_S, mark)
        yield Result("growth from the 3rd hour to the 21st of a day", marks[-1] - marks[1], DAY_LIMIT_MB, "MB")


def main() -> int:
    """Print the figures; 1 if a limit is missed."""
    return show(figures("--day" in sys.argv))


if __name__ == "__main__":
    sys.exit(main())
