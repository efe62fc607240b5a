"""Where each worker stands: the newest figures of each rank, each with the time at which it was told."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from oomctl.schemas.rows import Row

TREND_US = 60_000_000
"""Growth is measured over this long."""
POOL_FIELDS = (
    "total_blocks", "free_blocks", "used_blocks", "evictable_blocks", "usage_ratio", "total_tokens", "used_tokens",
    "evictable_tokens",
)  # fmt: skip
ALLOCATOR_FIELDS = ("allocated_bytes", "reserved_bytes", "num_alloc_retries", "num_ooms")


@dataclass
class Pool:
    """A KV pool of one rank.

    Attributes:
        figures: Fields of kv_pool rows, the newest of each.
        trend: (microseconds, used share) within TREND_US.
        ts: When it was last told.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    trend: deque[tuple[int, float]] = field(default_factory=deque)
    ts: int = 0


@dataclass
class Device:
    """A device as its driver tells.

    Attributes:
        figures: Fields of device rows.
        others_bytes: Held by processes that are not the worker's; None where nobody tells whose they are.
        ts: When it was last told.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    others_bytes: int | None = None
    ts: int = 0


@dataclass
class Worker:
    """One engine instance.

    Attributes:
        name: As recorded.
        incarnation: Its present life.
        phase: Newest lifecycle phase.
        running: Running requests.
        waiting: Queued requests.
        load_ts: When these were last told.
        preempted: Cumulative.
        preemptions: (microseconds, cumulative) within TREND_US.
        pools: By rank name.
        devices: By number.
        memory: Rank name to component to bytes.
        allocator: Rank name to its counters.
        retries: (microseconds, cumulative allocation retries) within TREND_US.
        failures: (microseconds, what) of out-of-memory rows, newest last.
        troubles: Source to what is wrong with it.
        ts: When anything was last told.
    """

    name: str
    incarnation: str | None = None
    phase: str | None = None
    running: int | None = None
    waiting: int | None = None
    load_ts: int = 0
    preempted: int | None = None
    preemptions: deque[tuple[int, int]] = field(default_factory=deque)
    pools: dict[str, Pool] = field(default_factory=dict)
    devices: dict[int | None, Device] = field(default_factory=dict)
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    allocator: dict[str, dict[str, int]] = field(default_factory=dict)
    retries: deque[tuple[int, int]] = field(default_factory=deque)
    failures: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=5))
    troubles: dict[str, str] = field(default_factory=dict)
    ts: int = 0


class Picture:
    """All workers.

    Attributes:
        workers: By name.
        ts: The newest row's time.
    """

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.ts = 0

    def shown(self) -> list[Worker]:
        """By name; without one that tells nothing of its own, but is the page of others, which are named after it."""
        return [
            worker
            for name, worker in sorted(self.workers.items())
            if worker.ts or not any(other.startswith(f"{name}/") for other in self.workers)
        ]

    def take(self, row: Row) -> None:
        """Apply one row; rows of a worker come in the order of their times."""
        ts = row.get("ts")
        name = row.get("worker")
        if ts is None or name is None:
            return
        apply = _APPLY.get(row["kind"])
        if apply is None:
            return
        self.ts = max(self.ts, ts)
        worker = self.workers.setdefault(name, Worker(name))
        life = row.get("incarnation")
        if life and life != worker.incarnation:
            if worker.incarnation is not None:
                # A new life holds nothing of the last one's.
                worker = self.workers[name] = Worker(name)
            worker.incarnation = life
        if row["kind"] != "collector":  # how a source is, is no news of the worker
            worker.ts = max(worker.ts, ts)
        apply(worker, row, row[row["kind"]], ts)


def _rank(row: Row) -> str:
    rank = row.get("rank")
    return row.get("rank_name") or (f"rank {rank}" if rank is not None else "")


def _told(fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: fields[name] for name in names if fields.get(name) is not None}


def _trim(trend: deque[Any], ts: int) -> None:
    while trend and trend[0][0] < ts - TREND_US:
        trend.popleft()


def _kv_pool(worker: Worker, row: Row, fields: dict[str, Any], ts: int) -> None:
    preempted = fields.get("preempted_requests")
    if preempted is not None:
        worker.preempted = preempted
        worker.preemptions.append((ts, preempted))
        _trim(worker.preemptions, ts)
    told = _told(fields, POOL_FIELDS)
    if not told or fields.get("tier") not in (None, "device") or fields.get("group_id") not in (None, "0"):
        return
    pool = worker.pools.setdefault(_rank(row), Pool())
    pool.figures.update(told)
    pool.ts = ts
    used = used_share(pool.figures)
    if used is not None:
        pool.trend.append((ts, used))
        _trim(pool.trend, ts)


def used_share(figures: dict[str, Any]) -> float | None:
    """Used share of a pool, from whatever its engine tells; None if that is not enough."""
    for used, total in (("used_blocks", "total_blocks"), ("used_tokens", "total_tokens")):
        if used in figures and figures.get(total):
            return float(figures[used]) / float(figures[total])
    ratio = figures.get("usage_ratio")
    return float(ratio) if ratio is not None else None


def _device(worker: Worker, row: Row, fields: dict[str, Any], ts: int) -> None:
    device = worker.devices.setdefault(row.get("device_id"), Device())
    device.figures.update(_told(fields, ("total_bytes", "used_bytes", "free_bytes", "reserved_bytes")))
    device.ts = ts


def _memory(worker: Worker, row: Row, fields: dict[str, Any], ts: int) -> None:
    if fields.get("bytes") is not None and fields.get("lifetime") in (None, "worker"):
        worker.memory.setdefault(_rank(row), {})[fields["component"]] = fields["bytes"]


def _allocator(worker: Worker, row: Row, fields: dict[str, Any], ts: int) -> None:
    worker.allocator.setdefault(_rank(row), {}).update(_told(fields, ALLOCATOR_FIELDS))
    if fields.get("num_alloc_retries") is not None:
        worker.retries.append((ts, fields["num_alloc_retries"]))
        _trim(worker.retries, ts)


def _load(worker: Worker, row: Row, fields: dict[str, Any], ts: int) -> None:
    worker.load_ts = ts
    if fields.get("running_requests") is not None:
        worker.running = fields["running_requests"]
    if fields.get("waiting_requests") is not None:
        worker.waiting = fields["waiting_requests"]


def _lifecycle(worker: Worker, row: Row, fields: dict[str, Any], ts: int) -> None:
    worker.phase = fields.get("phase") or worker.phase


def _oom(worker: Worker, row: Row, fields: dict[str, Any], ts: int) -> None:
    what = fields.get("error_type") or fields.get("resource") or "out of memory"
    worker.failures.append((ts, str(what)))


def _collector(worker: Worker, row: Row, fields: dict[str, Any], ts: int) -> None:
    if fields.get("state") in ("degraded", "failed"):
        worker.troubles[str(fields.get("name"))] = str(fields.get("detail"))
    elif fields.get("state") == "ok":
        worker.troubles.pop(str(fields.get("name")), None)


_APPLY = {
    "kv_pool": _kv_pool,
    "device": _device,
    "memory": _memory,
    "allocator": _allocator,
    "throughput": _load,
    "step": _load,
    "lifecycle": _lifecycle,
    "oom": _oom,
    "collector": _collector,
}
KINDS = tuple(_APPLY)
