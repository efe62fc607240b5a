"""A plugin of vLLM that leaks: each request that ends leaves LEAK_BYTES behind in the engine's core.

`plant` installs it into a folder for PYTHONPATH.
"""

import os
from pathlib import Path

KEPT: list[bytearray] = []


def register() -> None:
    """What vLLM calls in each of its processes."""
    from vllm.v1.core.sched.scheduler import Scheduler

    free = Scheduler._free_request

    def leaking(self, request, *arguments, **named):  # type: ignore[no-untyped-def]
        # Pages count as resident once something is written to them.
        KEPT.append(bytearray(os.urandom(4096) * (int(os.environ["LEAK_BYTES"]) // 4096)))
        return free(self, request, *arguments, **named)

    Scheduler._free_request = leaking


def plant(site: Path) -> Path:
    """A folder that holds this module as an installed plugin."""
    told = site / "leaky-1.0.dist-info"
    told.mkdir(parents=True)
    (site / "leaky.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: leaky\nVersion: 1.0\n", encoding="utf-8")
    (told / "entry_points.txt").write_text("[vllm.general_plugins]\nleaky = leaky:register\n", encoding="utf-8")
    return site
