"""What a state means: how long the pool lasts at the present growth, and what somebody should look at."""

from collections.abc import Iterator, Sequence

from oomctl.analyzers.picture.state import Pool, Worker, used_share

STALE_US = 20_000_000
FULL_RATIO = 0.95
TIGHT_RATIO = 0.02
"""Of a device: less free than this, and the next allocation outside the pool may fail."""
LEAST_POINTS = 4
ENDED = ("killed", "stopped")


def seconds_to_full(pool: Pool) -> float | None:
    """How long until a pool is full, were it to grow on as it did in the last minute.

    A straight line through (time, used share) by least squares, extended to 1.

    Returns:
        Seconds; None where it does not grow by more than its readings scatter, or there are too few of them.
    """
    points = list(pool.trend)
    if len(points) < LEAST_POINTS:
        return None
    start = points[0][0]
    times = [(ts - start) / 1e6 for ts, _ in points]
    shares = [share for _, share in points]
    slope, scatter = _line(times, shares)
    grown = slope * (times[-1] - times[0])
    if slope <= 0 or grown <= 2 * scatter:
        return None
    return max(0.0, (1.0 - shares[-1]) / slope)


def _line(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """(slope per second, standard deviation of what the line leaves)."""
    count = len(times)
    mean_time, mean_value = sum(times) / count, sum(values) / count
    spread = sum((time - mean_time) ** 2 for time in times)
    if spread == 0:
        return 0.0, 0.0
    slope = sum((time - mean_time) * (value - mean_value) for time, value in zip(times, values, strict=True)) / spread
    left = sum((value - mean_value - slope * (time - mean_time)) ** 2 for time, value in zip(times, values, strict=True))
    return slope, float((left / count) ** 0.5)


def is_over(worker: Worker) -> bool:
    """Whether it ended, or whoever tells its figures says that they are no longer true: then nothing grows on."""
    return worker.phase in ENDED or any(name.startswith("metrics ") for name in worker.troubles)


def alerts(worker: Worker, now_us: int) -> Iterator[str]:
    """What somebody should look at, worst first.

    Args:
        worker: Whose.
        now_us: The present, or the instant that is replayed.
    """
    for ts, what in worker.failures:
        yield f"{what}, {(now_us - ts) / 1e6:.0f} s ago"
    if worker.phase in ENDED:
        yield worker.phase
    elif worker.ts and now_us - worker.ts > STALE_US:
        yield f"no news for {(now_us - worker.ts) / 1e6:.0f} s: the figures are old"
    yield from worker.troubles.values()
    if preempted := _grown(worker.preemptions):
        yield f"{preempted} preempted in the last minute"
    if retries := _grown(worker.retries):
        yield f"{retries} allocation retries in the last minute"
    for name, pool in worker.pools.items():
        share = used_share(pool.figures)
        if share is not None and share >= FULL_RATIO:
            yield f"KV pool {name or ''} {share:.0%} used".replace("  ", " ")
    for number, device in worker.devices.items():
        free, total = device.figures.get("free_bytes"), device.figures.get("total_bytes")
        if free is not None and total and free < TIGHT_RATIO * total:
            yield f"device {number}: {free / total:.1%} free"


def _grown(counts: Sequence[tuple[int, int]]) -> int:
    return max(0, counts[-1][1] - counts[0][1]) if len(counts) > 1 else 0
