"""What each engine of this node offers, and the option that would make it offer more."""

from collections.abc import Callable, Iterator
from pathlib import Path

from oomctl.collectors.live.discover.workers import Worker
from oomctl.collectors.live.probe.finding import Finding

METRICS_OPTION = {
    "sglang": "--enable-metrics",
    "llamacpp": "--metrics",
    "trtllm": "enable_iter_perf_stats: true, return_perf_metrics: true",
    "lmdeploy": "--enable-metrics",
    "ollama": None,
}
"""What makes an engine serve a page; engines that are not named serve one unasked."""
AGENT = ("vllm", "sglang")
EVENTS = ("vllm", "sglang", "trtllm")


def engine(
    worker: Worker, metrics: str | None, kv_events: int, proc: Path, rings: Callable[[Path], int]
) -> Iterator[Finding]:
    """Probe one worker.

    Args:
        worker: Which.
        metrics: Its page, or None.
        kv_events: At how many endpoints it publishes.
        proc: The process file system.
        rings: Counts the rings of a folder.
    """
    name = f"{worker.engine} {worker.pid}"
    if worker.orphan:
        held = "its server is gone; it holds what it held, and serves nobody"
        yield Finding(name, "partly", held, f"kill {worker.pid}, once nobody waits for it")
        return
    if not worker.readable:
        yield Finding(
            name, "partly", "another user's: neither its environment nor its ports are seen", "the same user, or root"
        )
    yield _page(name, worker, metrics)
    if worker.engine in AGENT:
        yield _rings(name, worker, proc, rings)
    if worker.engine in EVENTS:
        yield _events(name, worker.engine, kv_events)


def _page(name: str, worker: Worker, metrics: str | None) -> Finding:
    if metrics is not None:
        return Finding(f"{name}: page of metrics", "there", metrics)
    if worker.engine == "ollama":
        return Finding(f"{name}: page of metrics", "missing", "ollama has none")
    option = METRICS_OPTION.get(worker.engine)
    needs = option or "its URL, if it listens in another network namespace: attach URL"
    return Finding(f"{name}: page of metrics", "missing", f"none at its ports {list(worker.ports)}", needs)


def _rings(name: str, worker: Worker, proc: Path, rings: Callable[[Path], int]) -> Finding:
    source = f"{name}: agent"
    if worker.rings is None:
        return Finding(
            source, "missing", "OOMCTL_RING was not set when it started", "OOMCTL_RING=DIR and the package, then a restart"
        )
    seen = proc / str(worker.pid) / "root" / worker.rings.lstrip("/")
    count = rings(seen)
    if count == 0:
        return Finding(
            source, "missing", f"no rings in {worker.rings}", "pip install --no-deps oomctl, where the engine runs"
        )
    return Finding(source, "there", f"{count} rings in {worker.rings}")


def _events(name: str, engine: str, kv_events: int) -> Finding:
    source = f"{name}: KV events"
    if kv_events:
        return Finding(source, "there", f"published at {kv_events} endpoints")
    if engine == "trtllm":
        needs = (
            "event_buffer_max_size in kv_cache_config, and attach --kv-events URL/kv_cache_events, if no router asks there"
        )
        return Finding(source, "missing", "handed out to whoever asks first; not asked unasked", needs)
    needs = "--kv-events-config; it costs: a publisher whose queue is full holds up the engine (vllm#53859)"
    return Finding(source, "missing", "not published, or too old to say so", needs)
