"""What `oomctl attach` is pointed at, and what can be had of it from outside: its page, its KV events, its devices."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from oomctl.collectors.live.discover.workers import Worker, workers
from oomctl.collectors.live.http import FetchError, get
from oomctl.collectors.live.processes import PROC, ring_folder
from oomctl.collectors.live.prometheus.page import parse
from oomctl.collectors.live.prometheus.scraper import engine_of
from oomctl.schemas.errors import ExitCode, OomctlError

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
PROBE_S = 2.0
MAX_PORTS = 20


@dataclass(frozen=True)
class Target:
    """A worker to record.

    Attributes:
        pid: Its process; None where it runs elsewhere.
        rings: Folder of its agent's rings, or None.
        metrics: Its page of metrics, or None.
        kv_events: (where it publishes, where it replays or None), of each data-parallel rank.
        visible_devices: Its CUDA_VISIBLE_DEVICES; None where it is not set or not known.
    """

    pid: int | None
    rings: Path | None = None
    metrics: str | None = None
    kv_events: tuple[tuple[str, str | None], ...] = ()
    visible_devices: str | None = None


def find(word: str | None, proc: Path = PROC) -> Target:
    """Resolve what attach is given.

    Args:
        word: A pid, a URL, or None for the only worker of this node.
        proc: The process file system.

    Raises:
        OomctlError: If it is neither, or there is not exactly one worker.
    """
    if word is None:
        return of_worker(_only(workers(proc)), proc)
    if word.isdecimal() and int(word) > 0:
        pid = int(word)
        known = next((worker for worker in workers(proc) if pid in worker.members), None)
        found = of_worker(known, proc) if known is not None else Target(None)
        return replace(found, pid=pid, rings=ring_folder(pid, proc) or found.rings)
    if word.startswith(("http://", "https://")):
        return _of_url(word, proc)
    raise OomctlError(f"neither a pid nor a URL: {word!r}", "oomctl attach lists the workers of this node", ExitCode.USAGE)


def of_worker(worker: Worker, proc: Path = PROC) -> Target:
    """What can be had of a worker of this node."""
    metrics = _page(worker, proc)
    return Target(worker.pid, ring_folder(worker.pid, proc), metrics, _published(worker, metrics, proc), worker.devices)


def kv_sources(metrics: str) -> tuple[tuple[str, str | None], ...]:
    """Where a vLLM server publishes KV events already (GET /kv_event_sources); none where it does not, or does not tell."""
    base = metrics.rsplit("/", 1)[0]
    host = urlsplit(metrics).hostname or "127.0.0.1"
    try:
        reply = get(f"{base}/kv_event_sources", PROBE_S, 65_536)
        told = json.loads(reply.body) if reply.status == 200 else {}
    except (FetchError, ValueError):
        return ()
    found = []
    for source in told.values() if isinstance(told, dict) else ():
        if isinstance(source, dict) and source.get("enable_kv_cache_events") and source.get("publisher") == "zmq":
            endpoint, replay = (_reachable(source.get(name), host) for name in ("endpoint", "replay_endpoint"))
            if endpoint is not None:
                found.append((endpoint, replay))
    return tuple(found)


def _published(worker: Worker, metrics: str | None, proc: Path) -> tuple[tuple[str, str | None], ...]:
    """Where a worker publishes KV events: by its own word, else by its arguments."""
    told = kv_sources(metrics) if metrics is not None and worker.engine == "vllm" else ()
    if told or not _same_network(worker.pid, proc):
        return told
    here = LOOPBACK[0]
    found = ((_reachable(endpoint, here), _reachable(replay, here)) for endpoint, replay in worker.published)
    return tuple((endpoint, replay) for endpoint, replay in found if endpoint is not None)


def _only(found: list[Worker]) -> Worker:
    serving = [worker for worker in found if not worker.orphan]
    if len(serving) == 1:
        return serving[0]
    if not serving:
        raise OomctlError("no worker of an engine runs here", "give its pid or the URL of its metrics", ExitCode.USAGE)
    pids = ", ".join(f"{worker.pid} ({worker.engine})" for worker in serving)
    raise OomctlError(f"{len(serving)} workers run here: {pids}", "give the pid of one", ExitCode.USAGE)


def _of_url(url: str, proc: Path) -> Target:
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise OomctlError(f"no port: {url!r}", "for instance http://127.0.0.1:8000", ExitCode.USAGE) from error
    metrics = url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}/metrics"
    if parts.hostname in LOOPBACK:
        for worker in workers(proc):
            if port in worker.ports and _same_network(worker.pid, proc):
                rings = ring_folder(worker.pid, proc)
                return Target(worker.pid, rings, metrics, _published(worker, metrics, proc), worker.devices)
    return Target(None, None, metrics, kv_sources(metrics))


def _page(worker: Worker, proc: Path) -> str | None:
    """The first of a worker's ports that answers with an engine's page."""
    if not _same_network(worker.pid, proc):
        return None
    for port in worker.ports[:MAX_PORTS]:
        url = f"http://127.0.0.1:{port}/metrics"
        try:
            reply = get(url, PROBE_S)
        except FetchError:
            continue
        if reply.status == 200 and engine_of(parse(reply.body.decode("utf-8", "replace")).samples) is not None:
            return url
    return None


def _same_network(pid: int, proc: Path) -> bool:
    """Whether a process's ports are ours: a container has ports of its own."""
    try:
        return (proc / str(pid) / "ns/net").readlink() == (proc / "self/ns/net").readlink()
    except OSError:
        return False


def _reachable(endpoint: object, host: str) -> str | None:
    """Where to connect to what binds to all addresses."""
    if not isinstance(endpoint, str) or not endpoint.startswith(("tcp://", "ipc://")):
        return None
    for anywhere in ("://*:", "://0.0.0.0:", "://[::]:"):
        endpoint = endpoint.replace(anywhere, f"://{host}:")
    return endpoint
