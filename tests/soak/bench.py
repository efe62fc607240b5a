"""What is soaked: a real engine, what stands between, and the recorder, which can be killed and started anew."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.engine import load
from tests.engine.agent_site import install_agent
from tests.engine.server import Server
from tests.soak.peers import Page, Wire, free_port

HERE = Path(__file__).parent
TMPFS_BYTES = 96 << 20
PATIENCE_S = 60.0
REQUESTS, TOKENS, AT_ONCE, HANG_UP_RATIO = 16, 48, 12, 0.2
"""Of a window: a wave of the engine's batch and a tail, so that a pair takes seconds and there are many of them."""
GENERATED = "vllm:generation_tokens_total"


@dataclass(frozen=True)
class Window:
    """What one round of the load took of the engine.

    Attributes:
        tokens_per_s: By the clock.
        cpu_us_per_token: Processor time of all its processes.
    """

    tokens_per_s: float
    cpu_us_per_token: float


@dataclass(frozen=True)
class Size:
    """Of a process.

    Attributes:
        resident_bytes: Now.
        peak_bytes: At most, so far.
        handles: Open files.
    """

    resident_bytes: int
    peak_bytes: int
    handles: int


class Bench:
    """An engine, what stands between, and the recorder.

    Attributes:
        outcomes: Of all requests so far.
        sizes: Of each recorder's process, behind each quiet window.
        cores: The same of the engine's core.
    """

    def __init__(self, engine: Path, folder: Path) -> None:
        self.folder, self.rings, self.root = folder, folder / "rings", folder / "disk" / "rec"
        self.rings.mkdir(mode=0o700)
        self.root.parent.mkdir()
        self.mounted = _mount(self.root.parent)
        self.clock = folder / "clock"
        self.clock.write_text("0")
        self.outcomes: list[load.Outcome] = []
        self.sizes: list[list[Size]] = []
        self.cores: list[Size] = []
        self._seed = 0
        model = folder / "model"
        subprocess.run([engine / "bin" / "python", HERE.parent / "engine" / "make_model.py", model], check=True)
        events = free_port()
        published = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{events}"}
        environment = {
            "OOMCTL_RING": str(self.rings), "OOMCTL_TRACKED_REQUESTS": "0", "OOMCTL_WORKER": "soak",
            "PYTHONPATH": str(install_agent(folder)),
        }  # fmt: skip
        self._server = partial(
            Server, engine, model, kv_blocks=512, environment=environment,
            arguments=("--kv-events-config", json.dumps(published)),
        )  # fmt: skip
        self.server = self._server(log=folder / "server-0.log")
        self.server.__enter__()
        self.page, self.wire = Page(f"{self.server.url}/metrics"), Wire(f"tcp://127.0.0.1:{events}")
        self.attach()

    def attach(self) -> None:
        """Start the recorder, and wait until it records."""
        told = {
            "root": str(self.root), "pid": str(self.server.process.pid), "rings": str(self.rings),
            "log": str(self.server.log), "metrics": self.page.url, "kv_events": self.wire.endpoint,
            "replay": self.wire.replay, "clock": str(self.clock),
        }  # fmt: skip
        before = _written(self.root)
        self.recorder = subprocess.Popen([sys.executable, "-m", "tests.soak.recorder", json.dumps(told)])
        self._wait(lambda: _written(self.root) > before)
        self.sizes.append([])

    def pair(self) -> tuple[list[load.Wish], list[load.Wish]]:
        """Two rounds of load of the same shape: lengths, what they share, who hangs up and when; only the words differ."""
        self._seed += 1
        first = load.wishes(REQUESTS, TOKENS, self._seed, hang_up_ratio=HANG_UP_RATIO)
        return first, [
            replace(wish, name=f"{wish.name}b", prompt=tuple(f"w{(int(word[1:]) + 7) % 496}" for word in wish.prompt))
            for wish in first
        ]

    def window(self, wishes: list[load.Wish]) -> Window:
        """One round of the load."""
        cpu_s, tokens, begun_s = self.server.cpu_s(), self.server.metrics()[GENERATED], time.monotonic()
        self.outcomes += load.run(self.server.port, wishes, AT_ONCE)
        took_s = time.monotonic() - begun_s
        tokens = self.server.metrics()[GENERATED] - tokens
        return Window(tokens / took_s, 1e6 * (self.server.cpu_s() - cpu_s) / tokens)

    def measure(self) -> None:
        """How large the recorder and the engine's core are, while nothing is wrong."""
        self.sizes[-1].append(_size(self.recorder.pid))
        self.cores.append(_size(self.server.pid_of("EngineCore")))

    def lives(self) -> bool:
        """Whether the recorder still writes: more than it had, within PATIENCE_S."""
        before = _written(self.root)
        load.run(self.server.port, load.wishes(2, 5, 90_000 + self._seed), 2)
        return self._wait(lambda: _written(self.root) != before) and self.recorder.poll() is None

    def kill(self) -> None:
        """The recorder, with SIGKILL; and start the next one."""
        self.recorder.kill()
        self.recorder.wait()
        self.attach()

    def restart(self) -> bool:
        """Kill the worker, see its recorder end by itself and freeze that, start a new life and record it."""
        os.kill(self.server.pid_of("Worker"), signal.SIGKILL)
        try:
            ended = self.recorder.wait(PATIENCE_S * 2) == 0
        except subprocess.TimeoutExpired:
            ended = False
            self.recorder.kill()
        self.server.stop()
        self.server = self._server(log=self.folder / "server-1.log")
        self.server.__enter__()
        self.page.point(f"{self.server.url}/metrics")
        self.wire.next_life()
        self.attach()
        return ended and self.lives()

    def close(self) -> None:
        """End in order: the recorder first, so that it reads what there is; then the engine, and what it left."""
        self.server.stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.recorder.wait(PATIENCE_S * 2)
        if self.recorder.poll() is None:
            self.recorder.kill()

    def _wait(self, condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.25)
        return True


def _mount(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES},mode=700", "oomctl-soak", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _written(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "live").glob("*.live"))


def _size(pid: int) -> Size:
    try:
        folder = Path(f"/proc/{pid}")
        told = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        resident, peak = (int(told[name].split()[0]) << 10 for name in ("VmRSS", "VmHWM"))
        return Size(resident, peak, len(list((folder / "fd").iterdir())))
    except (OSError, KeyError):
        return Size(0, 0, 0)
