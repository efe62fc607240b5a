"""`make soak`: faults, one after the other, each beside a quiet window of the same load; then what came of all of them.

    python -m tests.soak ENGINE [--minutes 6]

Prints three tables and exits with 1 where a fault was not survived, an event is neither recorded nor declared lost, memory
or handles grew, or the engine was slowed down for sure.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.agent.figures import interval
from tests.engine import load
from tests.engine.agent_site import install_agent
from tests.engine.server import Server
from tests.soak.accounts import Account, accounts
from tests.soak.peers import Page, Wire, free_port

HERE = Path(__file__).parent
TMPFS_BYTES = 96 << 20
PATIENCE_S = 60.0
JUMP_S = 3600.0
SLOWED = 0.9
"""The engine was harmed where even the upper end of the interval of its throughput is below that."""
LIMIT_BYTES = 128 << 20
"""Resident, of a recorder: of a page of 100 MB it takes 8, and its parser ten times that, which malloc keeps."""
CORE_GROWTH_BYTES = 32 << 20


@dataclass
class Fault:
    """What happened, and what came of it."""

    name: str
    times: int = 0
    survived: int = 0
    ratios: list[float] = field(default_factory=list)


class Bench:
    """An engine, what stands between, and the recorder.

    Attributes:
        outcomes: Of all requests so far.
        sizes: (resident bytes, handles) of each recorder's process, behind each window.
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
        self.sizes: list[list[tuple[int, int]]] = []
        self.cores: list[tuple[int, int]] = []
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

    def window(self) -> float:
        """Tokens a second of one round of the load, some of it cancelled."""
        self._seed += 1
        wishes = load.wishes(24, 60, self._seed, hang_up_ratio=0.2)
        begun_s = time.monotonic()
        done = load.run(self.server.port, wishes, 12)
        self.outcomes += done
        self.sizes[-1].append(_size(self.recorder.pid))
        self.cores.append(_size(self.server.pid_of("EngineCore")))
        return sum(outcome.chunks for outcome in done) / (time.monotonic() - begun_s)

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


def faults(bench: Bench) -> dict[str, Callable[[], contextlib.AbstractContextManager[None]]]:
    """Name to what is wrong while it is entered."""

    @contextmanager
    def killed() -> Iterator[None]:
        def soon() -> None:
            time.sleep(1.5)  # in the middle of the load
            bench.kill()

        thread = threading.Thread(target=soon)
        thread.start()
        yield
        thread.join()

    @contextmanager
    def full() -> Iterator[None]:
        with _full(bench):
            yield

    @contextmanager
    def clock() -> Iterator[None]:
        bench.clock.write_text(str(JUMP_S))
        yield
        bench.clock.write_text("0")

    @contextmanager
    def page(mode: str) -> Iterator[None]:
        bench.page.mode = mode
        yield
        bench.page.mode = "pass"

    @contextmanager
    def wire(mode: str) -> Iterator[None]:
        bench.wire.mode = mode
        yield
        bench.wire.mode = "pass"

    return {
        "the recorder is killed": killed,
        "the disk is full": full,
        "the clock jumps an hour and back": clock,
        "the page of metrics hangs": lambda: page("hang"),
        "it is garbage": lambda: page("garbage"),
        "it has 100 MB": lambda: page("huge"),
        "KV events are dropped, and replayed": lambda: wire("drop"),
        "KV events are lost": lambda: wire("lose"),
        "messages that are no KV events": lambda: wire("garbage"),
    }


@contextmanager
def _full(bench: Bench) -> Iterator[None]:
    """A file takes the rest of the small disk; where none could be mounted, the recorder's files may not grow."""
    if bench.mounted:
        ballast = bench.root.parent / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        yield
        ballast.unlink()
        return
    before = resource.prlimit(bench.recorder.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(bench.recorder.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    yield
    resource.prlimit(bench.recorder.pid, resource.RLIMIT_FSIZE, before)


def _mount(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES},mode=700", "oomctl-soak", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _written(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "live").glob("*.live"))


def _size(pid: int) -> tuple[int, int]:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0, 0


def run(bench: Bench, minutes: float) -> list[Fault]:
    """Each fault in pairs with quiet windows, in turns before and behind it, until the time is over; at least once."""
    found = {name: Fault(name) for name in faults(bench)}
    deadline, number = time.monotonic() + minutes * 60, 0
    bench.window()  # warms up
    while number == 0 or time.monotonic() < deadline:
        for name, wrong in faults(bench).items():
            fault = found[name]
            quiet = bench.window() if number % 2 == 0 else 0.0
            with wrong():
                harmed = bench.window()
            fault.times += 1
            fault.survived += bench.lives()
            quiet = quiet or bench.window()
            fault.ratios.append(harmed / quiet)
        number += 1
    last = Fault("the worker is killed, and starts anew", times=1)
    last.survived = int(bench.restart())
    bench.window()
    return [*found.values(), last]


def show(bench: Bench, told: list[Fault], kept: list[Account]) -> bool:
    """Print the tables; whether all is well."""
    good = all(fault.survived == fault.times for fault in told) and all(one.adds_up for one in kept)
    print(f"{'fault':42} {'injected':>8} {'survived':>8}   throughput to quiet (pairs)")
    for fault in told:
        ratio = f"{statistics.median(fault.ratios):.3f} ({len(fault.ratios)})" if fault.ratios else "-"
        print(f"{fault.name:42} {fault.times:8} {fault.survived:8}   {ratio}")
    ratios = [ratio for fault in told for ratio in fault.ratios]
    low, high = interval(ratios)
    print(f"\nthroughput under faults to quiet: median {statistics.median(ratios):.3f}, 95 % {low:.3f} to {high:.3f}, "
          f"{len(ratios)} interleaved pairs")  # fmt: skip
    print(f"\n{'events':42} {'expected':>9} {'recorded':>9} {'declared lost':>13}")
    for one in kept:
        print(f"{one.name:42} {one.expected:9} {one.recorded:9} {one.lost:13}   {'' if one.adds_up else 'DOES NOT ADD UP'}")
    print(f"\n{'process':42} {'MiB first':>9} {'largest':>7} {'last':>6} {'handles':>8} {'last':>6}")
    watched = {f"recorder {number}": sizes for number, sizes in enumerate(bench.sizes, 1)}
    bench.cores = bench.cores[:-1]
    watched["the engine's core, its first life"] = bench.cores
    for name, sizes in watched.items():
        if len(sizes) > 1:
            (first, handles), (last, left) = sizes[0], sizes[-1]
            largest = max(resident for resident, _ in sizes)
            within = last - first < CORE_GROWTH_BYTES if sizes is bench.cores else largest < LIMIT_BYTES
            flat = within and left <= handles + 2
            good &= flat
            memory = f"{first >> 20:9} {largest >> 20:7} {last >> 20:6}"
            print(f"{name:42} {memory} {handles:8} {left:6}   {'' if flat else 'GREW'}")
    states: dict[str, int] = {}
    for outcome in bench.outcomes:
        states[outcome.state] = states.get(outcome.state, 0) + 1
    print(f"\nrequests, as their clients saw them: {states}")
    print(f"the page was asked: {bench.page.asked}; KV events replayed {bench.wire.replays} times")
    print(f"load of the machine: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores; "
          f"the disk was {'a tmpfs' if bench.mounted else 'a limit on the size of files'}")  # fmt: skip
    return good and states.keys() <= {"finished", "hung_up"} and high >= SLOWED


def main() -> int:
    """Run it; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("engine", type=Path, help="a virtual environment that holds vLLM")
    parser.add_argument("--minutes", type=float, default=6.0, help="of faults; the engine starts twice besides")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oomctl-soak-") as name:
        bench = Bench(options.engine.absolute(), Path(name))
        try:
            told = run(bench, options.minutes)
            bench.close()
            good = show(bench, told, accounts(bench.root, bench.rings, bench.wire, bench.outcomes))
        finally:
            bench.close()
            if bench.mounted:
                subprocess.run(["umount", str(bench.root.parent)], check=False)
    print("all is well" if good else "NOT all is well")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
