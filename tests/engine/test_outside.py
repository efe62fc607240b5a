"""A vLLM that nothing prepared, seen from outside: found, scraped, its KV events followed, two of them told apart."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from oomctl.analyzers.picture.state import Picture
from oomctl.collectors.live.discover.workers import workers
from oomctl.collectors.live.kv_events.subscriber import Subscriber
from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.sources import Sources
from oomctl.collectors.recorder.watching import watch
from oomctl.targets import find
from tests.engine import load
from tests.engine.server import BLOCK_TOKENS, Server

pytestmark = pytest.mark.slow
KV_BLOCKS = 48


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def follow(pid: int) -> Sources:
    target = find(str(pid))
    assert target.metrics is not None, "no page at any of its ports"
    return watch(pid, target.rings, target.metrics, target.visible_devices, Clock())


def gather(sources: Iterable[Sources], picture: Picture, met: Callable[[], bool], seconds: float = 90) -> None:
    """Gather until something is seen."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, {name: vars(worker) for name, worker in picture.workers.items()}
        for source in sources:
            for row in source.gather(time.time_ns() // 1000).all_rows():
                picture.take(row)
        time.sleep(0.2)


def only(picture: Picture) -> Any:
    (worker,) = picture.workers.values()
    return worker


def test_a_running_server(engine: Path, model: Path, tmp_path: Path) -> None:
    events, replay = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    config = json.dumps({"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": events, "replay_endpoint": replay})
    arguments = ("--kv-events-config", config)
    with Server(engine, model, tmp_path / "server.log", kv_blocks=KV_BLOCKS, arguments=arguments) as server:
        known = {worker.pid: worker for worker in workers()}
        worker = known[server.process.pid]
        assert (worker.engine, worker.orphan) == ("vllm", False)
        assert server.port in worker.ports
        assert server.pid_of("EngineCore") in worker.members

        target = find(str(server.process.pid))
        assert target.metrics == f"{server.url}/metrics"
        assert target.kv_events == ((events, replay),)
        cache = Subscriber(events, {"worker": "w"}, Clock(), replay)
        sources, picture = [follow(server.process.pid)], Picture()
        # Within two scrapes its pool and its queue are known.
        begun = time.monotonic()
        gather(sources, picture, lambda: bool(picture.workers) and only(picture).running is not None)
        assert time.monotonic() - begun < 30
        assert only(picture).pools[""].figures["total_blocks"] == KV_BLOCKS

        batches = load.run(server.port, load.wishes(24, 60, seed=5), concurrency=8)
        assert {outcome.state for outcome in batches} == {"finished"}
        largest, lost = 0, 0
        for _ in range(20):
            batch = cache.poll()
            lost += sum(count for _, count, _ in batch.losses)
            largest = max([largest, *cache.resident.blocks().values()])
            time.sleep(0.1)
        assert lost == 0
        assert 0 < largest <= KV_BLOCKS - 1, "no more is resident than the pool holds"

        # At a quiet instant the figures are the engine's own.
        told = server.metrics()
        gather(sources, picture, lambda: only(picture).running == 0 and only(picture).waiting == 0)
        gather(sources, picture, lambda: only(picture).preempted == told["vllm:num_preemptions_total"])
        figures = only(picture).pools[""].figures
        assert figures["used_blocks"] + figures["free_blocks"] == KV_BLOCKS - 1
        assert figures["used_blocks"] == round(told["vllm:kv_cache_usage_perc"] * (KV_BLOCKS - 1))
        assert told["vllm:prefix_cache_hits_total"] % BLOCK_TOKENS == 0

        # A reset empties the index, as the engine says.
        cache.close()
        os.kill(server.pid_of("EngineCore"), signal.SIGKILL)
        gather(
            sources, picture, lambda: any("its last figures are" in said for said in only(picture).troubles.values()), 120
        )
    for source in sources:
        source.close()


def test_two_servers_are_never_mixed(engine: Path, model: Path, tmp_path: Path) -> None:
    small, large = (
        Server(engine, model, tmp_path / f"{blocks}.log", kv_blocks=blocks) for blocks in (KV_BLOCKS, 2 * KV_BLOCKS)
    )
    with small, large:
        picture = Picture()
        sources = [follow(server.process.pid) for server in (small, large)]
        gather(sources, picture, lambda: len(picture.workers) == 2)
        load.run(small.port, load.wishes(4, 40, seed=6), concurrency=4)
        gather(sources, picture, lambda: all(worker.pools for worker in picture.workers.values()))
        totals = {
            name: worker.pools[""].figures["total_blocks"] for name, worker in picture.workers.items() if worker.pools
        }
        assert sorted(totals.values()) == [KV_BLOCKS, 2 * KV_BLOCKS]
        assert {name.rpartition(":")[2] for name in totals} == {str(small.process.pid), str(large.process.pid)}
        assert find(large.url).pid == large.process.pid
    for source in sources:
        source.close()
