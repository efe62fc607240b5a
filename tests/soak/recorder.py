"""The recorder under test, as a process of its own that can be killed: `python -m tests.soak.recorder SETTINGS`.

It goes by a wall clock that a file moves: what stands in it is added, in seconds.
"""

import json
import signal
import sys
import time
from pathlib import Path

from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.loop import Recorder
from oomctl.collectors.recorder.settings import Settings
from tests.recorder.stand_in import NODE


def main(told: dict[str, str]) -> None:
    """Record until the worker ends or SIGTERM comes."""
    moved = Path(told["clock"])

    def wall_us() -> int:
        return time.time_ns() // 1000 + int(float(moved.read_text() or 0) * 1e6)

    settings = Settings(
        root=Path(told["root"]),
        pid=int(told["pid"]),
        node=NODE,
        rings=Path(told["rings"]),
        keep_rings=True,
        log=Path(told["log"]),
        metrics=(told["metrics"],),
        scrape_s=1.0,
        kv_events=((told["kv_events"], told["replay"]),),
        settle_s=3.0,
    )
    recorder = Recorder(settings, Clock(wall_us=wall_us))

    def stop(number: int, frame: object) -> None:
        recorder.stopping = True

    signal.signal(signal.SIGTERM, stop)
    recorder.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
