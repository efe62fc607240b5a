"""Readings that have their own time: never in the step, because memory_stats takes a lock and builds a dictionary."""

import threading
import time
from collections.abc import Callable

from oomctl.collectors.agent import memory
from oomctl.collectors.agent.guard import Guard
from oomctl.collectors.agent.kinds import COLLECTOR
from oomctl.collectors.agent.layout import pack_texts
from oomctl.collectors.agent.rings import Rings

CLOCK_S = 10.0


def start(rings: Rings, guard: Guard, interval_s: float, read: Callable[..., None] = memory.write_all) -> None:
    """Begin a daemon thread that reads at each interval, into a ring of its own, while that is active."""

    def work() -> None:
        ring = rings.mine()
        told = cost_ns = 0
        while not rings.quiet:
            if ring.active:
                before = time.thread_time_ns()
                try:
                    read(ring)
                except Exception as error:
                    guard.failed("timer", error)
                cost_ns += time.thread_time_ns() - before
                now = time.monotonic()
                if now - told >= CLOCK_S or not told:
                    told = int(now)
                    tail = pack_texts("agent", "ok")
                    ring.write(COLLECTOR, tail, cost_ns // 1000, guard.errors, time.time_ns())
            time.sleep(interval_s)

    threading.Thread(target=work, name="oomctl-timer", daemon=True).start()
