"""A plugin of vLLM with faults and paces of its own, by variables; it acts in the engine's core.

LEAK_BYTES: each request that ends leaves so many behind. STEP_S: no step takes less time, as those of a large model do, so
that a worker is as fast as that says, not as a CPU that others use too.

`plant` installs it into a folder for PYTHONPATH.
"""

import os
import time
from pathlib import Path

NAME = "planted"
KEPT: list[bytearray] = []


def register() -> None:
    """What vLLM calls in each of its processes."""
    from vllm.v1.core.sched.scheduler import Scheduler

    free, schedule, update = Scheduler._free_request, Scheduler.schedule, Scheduler.update_from_output
    leak_bytes, step_s = int(os.environ.get("LEAK_BYTES", "0")), float(os.environ.get("STEP_S", "0"))

    def leaking(self, request, *arguments, **named):  # type: ignore[no-untyped-def]
        # Pages count as resident once something is written to them.
        KEPT.append(bytearray(os.urandom(4096) * (leak_bytes // 4096)))
        return free(self, request, *arguments, **named)

    def begun(self, *arguments, **named):  # type: ignore[no-untyped-def]
        self.began_s = time.monotonic()
        return schedule(self, *arguments, **named)

    def ended(self, scheduled, *arguments, **named):  # type: ignore[no-untyped-def]
        if scheduled.total_num_scheduled_tokens:
            time.sleep(max(0.0, self.began_s + step_s - time.monotonic()))
        return update(self, scheduled, *arguments, **named)

    if leak_bytes:
        Scheduler._free_request = leaking
    if step_s:
        Scheduler.schedule, Scheduler.update_from_output = begun, ended


def plant(site: Path) -> Path:
    """A folder that holds this module as an installed plugin."""
    told = site / f"{NAME}-1.0.dist-info"
    told.mkdir(parents=True)
    (site / f"{NAME}.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n", encoding="utf-8")
    (told / "entry_points.txt").write_text(f"[vllm.general_plugins]\n{NAME} = {NAME}:register\n", encoding="utf-8")
    return site
