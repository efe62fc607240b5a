"""The guard: it looks at the worker twice a second, and ends the load when something that has to stay does not."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oomctl.analyzers.capacity.experiment.breaks import Break, Floors, below_floor, too_many_errors
from oomctl.analyzers.capacity.experiment.observed import Answer, Look
from oomctl.collectors.live.http import FetchError, get
from oomctl.collectors.live.prometheus.facts import read
from oomctl.collectors.live.prometheus.mapping import Engine
from oomctl.collectors.live.prometheus.page import Page, parse
from oomctl.collectors.live.prometheus.scraper import engine_of

PERIOD_S = 0.5
PAGE_S = 3.0
BLIND_S = 10.0
"""Without a page for so long, nothing is guarded, and the load ends; a worker elsewhere counts as gone."""

Memory = Callable[[], dict[str, int]]


class Watch:
    """Looks at one worker from a thread of its own.

    Args:
        page: Its page of metrics.
        floors: What has to stay.
        alive: Whether its process runs; of one elsewhere None.
        memory: Fields of a look that tell of device and host.

    Attributes:
        stop: Set when the load has to end.
        tripped: Why.
        looks: Since `begin`.
        engine: Whose page it is, once that is known.
        begun_s: When that was, on the monotonic clock; seconds of looks count from there.
    """

    def __init__(self, page: str, floors: Floors, alive: Callable[[], bool] | None, memory: Memory) -> None:
        self.stop = threading.Event()
        self.tripped: Break | None = None
        self.looks: list[Look] = []
        self.engine: str | None = None
        self._page, self._floors, self._alive, self._memory = page, floors, alive, memory
        self.begun_s = time.monotonic()
        self._answered = self._failed = 0
        self._seen_s = self.begun_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oomctl-guard", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def gone(self) -> bool:
        """Whether the worker ended; of one elsewhere, whether it has not answered for long."""
        return not self._alive() if self._alive is not None else self._blind

    def begin(self) -> None:
        """A try begins: what came before does not count."""
        self.begun_s = time.monotonic()
        self.looks = []
        self._answered = self._failed = 0
        self.tripped = None
        self.stop.clear()

    def seen(self, answer: Answer) -> None:
        """An answer of the try came."""
        self._answered += 1
        self._failed += answer.state == "failed"
        self._trip(too_many_errors(self._answered, self._failed, self._now_s(), self._floors, answer.error))

    def look(self) -> Look | None:
        """One look, now; None where the worker does not answer."""
        try:
            reply = get(self._page, PAGE_S)
        except FetchError:
            reply = None
        if reply is None or reply.status != 200:
            return None
        self._seen_s = time.monotonic()
        page = parse(reply.body.decode("utf-8", "replace"))
        engine = engine_of(page.samples)
        self.engine = engine.engine if engine is not None else None
        found = Look(s=self._now_s(), **figures(engine, page), **self._memory())
        self.looks.append(found)
        return found

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_S):
            found = self.look()
            if found is not None:
                self._trip(below_floor(found, self._floors))
            elif self.gone:
                self._trip(Break("errors", self._now_s(), "the worker is gone"))
            elif self._blind:
                self._trip(Break("errors", self._now_s(), f"no page of metrics for {BLIND_S:g} s: nothing is guarded"))

    def _trip(self, found: Break | None) -> None:
        if found is not None and self.tripped is None:
            self.tripped = found
            self.stop.set()

    @property
    def _blind(self) -> bool:
        return time.monotonic() - self._seen_s >= BLIND_S

    def _now_s(self) -> float:
        return time.monotonic() - self.begun_s


def figures(engine: Engine | None, page: Page) -> dict[str, Any]:
    """Fields of a look that an engine's page tells: of several ranks the fewest free blocks, and sums of requests."""
    if engine is None:
        return {}
    facts = read(engine, page.samples).facts
    pools = [fact.fields for fact in facts if fact.kind == "kv_pool"]
    load = [fact.fields for fact in facts if fact.kind == "throughput"]
    least = {"total_blocks": _known(pools, "total_blocks"), "free_blocks": _known(pools, "free_blocks")}
    sums = {
        "preempted": _known(pools, "preempted_requests"),
        "query_tokens": _known(pools, "prefix_query_tokens"),
        "hit_tokens": _known(pools, "prefix_hit_tokens"),
        "running": _known(load, "running_requests"),
        "waiting": _known(load, "waiting_requests"),
    }
    return {name: min(values) if values else None for name, values in least.items()} | {
        name: sum(values) if values else None for name, values in sums.items()
    }


def _known(rows: list[dict[str, Any]], name: str) -> list[int]:
    return [int(row[name]) for row in rows if row.get(name) is not None]


class DeviceMemory:
    """Free memory of the worker's devices, by their driver; of its host, where there is no driver.

    Args:
        visible: The worker's CUDA_VISIBLE_DEVICES, or None.
        proc: The process file system.
    """

    def __init__(self, visible: str | None, proc: Path = Path("/proc")) -> None:
        import pynvml

        from oomctl.collectors.live.nvml.visible import devices

        self._proc, self._api = proc, pynvml
        try:
            pynvml.nvmlInit()
            self._devices = devices(pynvml, visible)
        except pynvml.NVMLError:
            self._devices = []

    def __call__(self) -> dict[str, int]:
        """Fields of a look; what cannot be read is left out."""
        from oomctl.collectors.live.nvml.readings import memory

        found = self._host()
        readings = []
        for device in self._devices:
            try:
                readings.append(memory(self._api, device))
            except self._api.NVMLError:
                continue
        if readings:
            least = min(readings, key=lambda each: int(each["free_bytes"]))
            found |= {"device_total_bytes": least["total_bytes"], "device_free_bytes": least["free_bytes"]}
        return found

    def _host(self) -> dict[str, int]:
        try:
            lines = (self._proc / "meminfo").read_text("ascii", "replace").splitlines()
            kib = {line.partition(":")[0]: int(line.split()[1]) for line in lines if ":" in line}
            return {"host_total_bytes": kib["MemTotal"] << 10, "host_free_bytes": kib["MemAvailable"] << 10}
        except (OSError, ValueError, IndexError, KeyError):
            return {}
