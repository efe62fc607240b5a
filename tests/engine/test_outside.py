"""A vLLM that nothing prepared, seen from outside: found, scraped, its KV events followed, two of them told apart."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from oomctl.analyzers.picture.state import Picture, Worker
from oomctl.cli.render.top import frame
from oomctl.collectors.live.discover.workers import workers
from oomctl.collectors.live.kv_events.subscriber import Subscriber
from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.watching import Watching
from oomctl.schemas.rows import Row
from oomctl.targets import find
from tests.engine import load
from tests.engine.resident import LossyWire, Probe
from tests.engine.server import Server

pytestmark = pytest.mark.slow
KV_BLOCKS = 48
USABLE_BLOCKS = KV_BLOCKS - 1
"""One is the engine's null block."""
PATIENCE_S = 150


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class View:
    """What `oomctl top` sees of some targets.

    Attributes:
        picture: As it stands.
        rows: All that came.
    """

    def __init__(self, *words: str) -> None:
        self.picture = Picture()
        self.rows: list[Row] = []
        self._watching = []
        for word in words:
            target = find(word)
            assert target.metrics is not None, "no page at any of its ports"
            watching = Watching(target.pid, target.rings, target.metrics, target.visible_devices, Clock())
            self._watching.append(watching)

    def until(self, met: Callable[[], bool]) -> None:
        """Gather until something is seen."""
        deadline = time.monotonic() + PATIENCE_S
        while not met():
            assert time.monotonic() < deadline, {name: vars(worker) for name, worker in self.picture.workers.items()}
            for watching in self._watching:
                for row in watching.rows():
                    self.rows.append(row)
                    self.picture.take(row)
            time.sleep(0.2)

    def worker(self, pid: int) -> Worker:
        (found,) = (worker for name, worker in self.picture.workers.items() if name.endswith(f":{pid}"))
        return found

    def knows(self, *pids: int) -> bool:
        """Whether the pool and the queue of each are told."""
        named = {name.rpartition(":")[2]: worker for name, worker in self.picture.workers.items()}
        return all(
            str(pid) in named and named[str(pid)].running is not None and "used_blocks" in _pool(named[str(pid)])
            for pid in pids
        )

    def scrapes(self, pid: int) -> int:
        """How many brought figures."""
        rows = (row for row in self.rows if row["source"] == "prometheus" and row["worker"].endswith(f":{pid}"))
        return len({row["ts"] for row in rows})

    def drawn(self) -> str:
        return " ".join(" ".join(frame(self.picture, time.time_ns() // 1000, 80, "top")).split())

    def close(self) -> None:
        for watching in self._watching:
            watching.close()


def _pool(worker: Worker) -> dict[str, int]:
    return worker.pools[""].figures if "" in worker.pools else {}


def settled(subscribers: Iterable[Subscriber]) -> int:
    """Take events until none comes any more; returns how many are lost."""
    quiet, lost = 0, 0
    while quiet < 10:
        quiet += 1
        for subscriber in subscribers:
            batch = subscriber.poll()
            lost += sum(count for _, count, _ in batch.losses)
            assert max(subscriber.resident.blocks().values(), default=0) <= USABLE_BLOCKS, "more than the pool holds"
            quiet = 0 if batch.rows else quiet
        time.sleep(0.1)
    return lost


def test_figures_and_events_are_the_engines_own(engine: Path, model: Path, tmp_path: Path) -> None:
    ports = free_port(), free_port()
    published = {
        "enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv-events",
        "endpoint": f"tcp://*:{ports[0]}", "replay_endpoint": f"tcp://*:{ports[1]}",
    }  # fmt: skip
    probe = Probe(tmp_path / "probe")
    arguments = ("--kv-events-config", json.dumps(published))
    made = Server(
        engine, model, tmp_path / "server.log", kv_blocks=KV_BLOCKS, arguments=arguments, environment=probe.environment
    )
    with made as server:
        pid, core = server.process.pid, server.pid_of("EngineCore")
        events, replay = (f"tcp://127.0.0.1:{port}" for port in ports)
        assert find(str(pid)).kv_events == ((events, replay),), "they are found where they are published"
        wire = LossyWire(events)
        whole = Subscriber(events, {"worker": "w"}, Clock(), replay)
        replayed = Subscriber(wire.endpoint, {"worker": "w"}, Clock(), replay)
        counted = Subscriber(wire.endpoint, {"worker": "w"}, Clock())
        everyone = (whole, replayed, counted)
        settled(everyone)
        view = View(str(pid))
        view.until(lambda: view.knows(pid))

        copies = 0
        for seed in (5, 6):
            wire.leaky = True
            done = load.run(server.port, load.wishes(16, 120, seed=seed), concurrency=16)
            # That something was lost is noticed by the next message only.
            wire.leaky = False
            done += load.run(server.port, load.wishes(1, 40, seed=seed + 10))
            # Prompts of whole blocks: their last block is computed anew, and cached twice.
            for words in (63, 64):
                done += load.run(server.port, load.wishes(3, 2, seed=seed + 20, shared_words=words, own_words=0))
            assert {outcome.state for outcome in done} == {"finished"}
            # At a quiet instant the figures are the engine's own.
            told = server.metrics()
            assert told["vllm:num_requests_running"] == told["vllm:num_requests_waiting"] == 0
            view.until(lambda: view.worker(pid).preempted == told["vllm:num_preemptions_total"])  # noqa: B023
            view.until(lambda: view.worker(pid).running == view.worker(pid).waiting == 0)
            used = round(told["vllm:kv_cache_usage_perc"] * USABLE_BLOCKS)
            assert _pool(view.worker(pid))["total_blocks"] == KV_BLOCKS
            assert _pool(view.worker(pid))["used_blocks"] == used
            assert _pool(view.worker(pid))["free_blocks"] == USABLE_BLOCKS - used

            # So is what its prefix cache holds, for who heard all of it, and for who had what was lost replayed.
            assert settled((whole, replayed)) == 0
            held = probe.hashes(core)
            assert len(held) > USABLE_BLOCKS // 2
            assert whole.resident.hashes() == replayed.resident.hashes() == held
            copies += sum(whole.resident.blocks().values()) - len(held)
        assert told["vllm:num_preemptions_total"] > 0, "the pool was never full"
        assert copies > 0, "no block was cached twice"
        # Who cannot have it replayed counts it.
        assert settled([counted]) == wire.lost > 0

        # A dead engine's last figures are not current, although its page may go on for a while.
        load.start(server.port, load.wishes(12, 900, seed=7))
        view.until(lambda: (view.worker(pid).running or 0) > 0)
        os.kill(core, signal.SIGKILL)
        view.until(lambda: any("its last figures are" in said for said in view.worker(pid).troubles.values()))
        assert "its last figures are" in view.drawn()
        for closing in (*everyone, view, wire):
            closing.close()


def test_two_servers_and_a_restart(engine: Path, model: Path, tmp_path: Path) -> None:
    small, large = (
        Server(engine, model, tmp_path / f"{blocks}.log", kv_blocks=blocks) for blocks in (KV_BLOCKS, 2 * KV_BLOCKS)
    )
    with small, large:
        known = {worker.pid: worker for worker in workers()}
        for server in (small, large):
            worker = known[server.process.pid]
            assert (worker.engine, worker.orphan) == ("vllm", False)
            assert server.port in worker.ports
            assert server.pid_of("EngineCore") in worker.members
        pids = [server.process.pid for server in (small, large)]
        view = View(*map(str, pids))
        view.until(lambda: view.knows(*pids))
        assert max(map(view.scrapes, pids)) <= 2
        load.run(small.port, load.wishes(16, 200, seed=6), concurrency=16)
        told = small.metrics()
        view.until(lambda: view.worker(pids[0]).preempted == told["vllm:num_preemptions_total"] > 0)
        assert [_pool(view.worker(pid))["total_blocks"] for pid in pids] == [KV_BLOCKS, 2 * KV_BLOCKS]
        assert view.worker(pids[1]).preempted == 0
        assert find(large.url).pid == large.process.pid

        # The large one is started again, where it was.
        elsewhere = View(large.url)
        elsewhere.until(lambda: elsewhere.knows(pids[1]))
        lives = [view.worker(pids[1]).incarnation]
        large.stop()
        view.until(lambda: bool(view.worker(pids[1]).troubles))
        large.start()
        large.wait_ready()
        again = View(large.url)
        again.until(lambda: again.knows(large.process.pid))
        lives.append(again.worker(large.process.pid).incarnation)
        assert len(set(lives)) == 2 and None not in lives
        for closing in (view, elsewhere, again):
            closing.close()
