"""Failures of known cause, made by running programs on the model: for each cause one that has it, and a look-alike."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oomctl.analyzers.allocator.advice import Cause
from oomctl.analyzers.allocator.model.settings import Settings
from oomctl.schemas.heap import DEFAULT_POOL, PoolId
from tests.allocator.maker import MIB, Run

GRAPH: PoolId = (1, 0)


@dataclass(frozen=True)
class Failure:
    """A run that ends with an `oom` entry.

    Attributes:
        run: As it was made.
        cause: The truth.
        beside: What a log beside the snapshot would tell: limit, totals, processes.
    """

    run: Run
    cause: Cause
    beside: dict[str, Any] = field(default_factory=dict)


def _holes(room: int, kept: int = 12, stream: int = 0, pool: PoolId = DEFAULT_POOL, **settings: Any) -> Run:
    """Four segments of 44 MiB, in each of which so many MiB stay and the rest is a hole."""
    run = Run(room * MIB, Settings(**settings))
    for _ in range(4):
        first = run.alloc(44 * MIB, stream=stream, pool=pool)
        assert first is not None
        run.free(first)
        run.alloc(kept * MIB, "weights", stream, pool)
        run.alloc((43 - kept) * MIB + 512, stream=stream, pool=pool)  # holds its place until all four are there
    for block in [block for block in run.allocator.live.values() if block.requested % MIB]:
        run.free(block.address)
    return run


def _fails(run: Run, size: int = 100, stream: int = 0, pool: PoolId = DEFAULT_POOL) -> Run:
    assert run.alloc(size * MIB, "step", stream, pool) is None
    return run


def _cached(room: int, capturing: bool) -> Run:
    """Whole segments are cached, and a graph is captured, or not; then there is no segment to give back."""
    run = Run(room * MIB)
    held = [run.alloc(30 * MIB, "weights") for _ in range(4)]
    if capturing:
        for address in held:
            assert address is not None
            run.free(address)
        run.allocator.capturing = True
    return _fails(run, 100, pool=GRAPH)


def _refused(room: int, free: int) -> Run:
    """A driver that refuses with so much free."""
    run = Run(room * MIB)
    run.alloc(80 * MIB, "weights")
    run.device.refuses = free == 0 or free > 100
    return _fails(run)


def _limited(limit: int | None, room: int) -> Failure:
    run = Run(room * MIB, Settings(limit_bytes=None if limit is None else limit * MIB))
    run.alloc(150 * MIB, "weights")
    beside = {} if limit is None else {"limit_bytes": limit * MIB}
    return Failure(_fails(run), "limit" if limit is not None else "exhaustion", beside)


def _barred(max_split: int | None) -> Failure:
    """A free block of 80 MiB when 60 are asked for: max_split_size forbids it, or nothing does and it is passed over."""
    settings = Settings() if max_split is None else Settings(max_split_bytes=max_split * MIB)
    run = Run(200 * MIB, settings)
    held = run.alloc(81 * MIB)
    assert held is not None
    run.alloc(110 * MIB, "weights")
    run.free(held)
    if max_split is None:
        run.trace.append({"action": "oom", "size": 60 * MIB, "device_free": 8 * MIB, "stream": 0, "frames": []})
        return Failure(run, "allocator_anomaly")
    run.alloc(82 * MIB, "weights")  # the cached one serves it: up to 20 MiB larger
    return Failure(_fails(run, 60), "exhaustion")


def _pending(used_elsewhere: bool) -> Failure:
    """Memory that another stream still uses, or that is simply in use."""
    run = Run(200 * MIB)
    held = [run.alloc(45 * MIB) for _ in range(4)]
    for address in held[:3] if used_elsewhere else []:
        assert address is not None
        run.free(address, used_elsewhere=True)
    return Failure(_fails(run), "other_streams" if used_elsewhere else "exhaustion")


def _outside(**beside: int) -> Run:
    run = Run(100 * MIB)
    run.alloc(90 * MIB, "weights")
    return _fails(run)


PAIRS: dict[str, tuple[Callable[[], Failure], Callable[[], Failure]]] = {
    "limit": (lambda: _limited(200, 1000), lambda: _limited(None, 200)),
    "allocator_anomaly": (lambda: _barred(None), lambda: _barred(70)),
    "flush_skipped": (
        lambda: Failure(_cached(130, capturing=True), "flush_skipped"),
        lambda: Failure(_cached(130, capturing=False), "exhaustion"),
    ),
    "driver_refusal": (
        lambda: Failure(_refused(500, 420), "driver_refusal"),
        lambda: Failure(_refused(100, 20), "exhaustion"),
    ),
    "fragmentation": (
        lambda: Failure(_fails(_holes(200)), "fragmentation"),
        lambda: Failure(_fails(_holes(200, kept=30)), "exhaustion"),
    ),
    "fragmentation, expandable": (
        lambda: Failure(_fails(_holes(200)), "fragmentation"),
        lambda: Failure(_fails(_holes(200, kept=30, expandable=True)), "exhaustion"),
    ),
    "private_pools": (
        lambda: Failure(_fails(_holes(200, pool=GRAPH)), "private_pools"),
        lambda: Failure(_fails(_holes(200)), "fragmentation"),
    ),
    "other_streams": (
        lambda: Failure(_fails(_holes(200, stream=7)), "other_streams"),
        lambda: Failure(_fails(_holes(200, stream=7), stream=7), "fragmentation"),
    ),
    "other_streams, pending": (lambda: _pending(True), lambda: _pending(False)),
    "non_torch": (
        lambda: Failure(_outside(), "non_torch", {"own_process_bytes": 800 * MIB}),
        lambda: Failure(_outside(), "exhaustion", {"own_process_bytes": 300 * MIB}),
    ),
    "other_process": (
        lambda: Failure(_outside(), "other_process", {"others_bytes": 400 * MIB}),
        lambda: Failure(_outside(), "exhaustion", {"others_bytes": 60 * MIB}),
    ),
    "exhaustion": (
        lambda: Failure(_outside(), "exhaustion", {"total_bytes": 100 * MIB}),
        lambda: Failure(_fails(_holes(200)), "fragmentation", {"total_bytes": 900 * MIB}),
    ),
}
