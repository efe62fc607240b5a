"""The clocks that the recorder goes by, as arguments: tests make them jump."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Time, and waiting.

    Attributes:
        wall_us: Microseconds since 1970; may jump. For what is written down.
        monotonic_s: Seconds since whenever; never jumps. For intervals.
        cpu_us: CPU time of this process in microseconds.
        thread_us: CPU time of the calling thread in microseconds.
        sleep: Waits so many seconds, or less.
    """

    wall_us: Callable[[], int] = lambda: time.time_ns() // 1000
    monotonic_s: Callable[[], float] = time.monotonic
    cpu_us: Callable[[], int] = lambda: time.process_time_ns() // 1000
    thread_us: Callable[[], int] = lambda: time.thread_time_ns() // 1000
    sleep: Callable[[float], None] = time.sleep
