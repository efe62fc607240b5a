"""A recording of eight ranks over ten minutes, as the recorder keeps one, for the cost and the size of a report."""

from pathlib import Path
from typing import Any

from oomctl.schemas import storage
from oomctl.schemas.rows import Row, make_row

RANKS = 8
SECONDS = 600
STEPS_PER_S = 20
REQUESTS_PER_S = 5
STAY_S = 40
GIB = 1 << 30
START_US = 1_777_888_800_000_000


class _Rows:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._seqs: dict[str, int] = {}

    def add(self, stream: str, kind: str, second: float, rank: int | None = None, **fields: Any) -> None:
        self._seqs[stream] = self._seqs.get(stream, 0) + 1
        common: dict[str, Any] = {
            "ts": START_US + round(second * 1e6), "ts_quality": "exact", "stream": stream, "seq": self._seqs[stream],
            "node": "n0", "worker": "w0", "incarnation": "boot-1-1", "source": "agent",
        }  # fmt: skip
        if rank is not None:
            common |= {"rank": rank, "rank_name": f"TP{rank}", "device_id": rank}
        self.rows.append(make_row(kind, fields, common))


def write(path: Path, seconds: int = SECONDS) -> int:
    """Write it as Parquet.

    Returns:
        How many rows it has.
    """
    made = _Rows()
    for rank in range(RANKS):
        _rank(made, rank, seconds)
    for second in range(5, seconds):
        for n in range(STEPS_PER_S):
            made.add(
                "core", "step", second + n / STEPS_PER_S, step_id=second * STEPS_PER_S + n, prefill_tokens=100,
                decode_tokens=200, running_requests=200, waiting_requests=second // 10,
            )  # fmt: skip
        used = 10_000 * second // seconds
        made.add("core", "kv_pool", second, total_blocks=10_000, used_blocks=used, usage_ratio=used / 10_000)
    for n in range(REQUESTS_PER_S * (seconds - 10)):
        came = 5 + n / REQUESTS_PER_S
        known: dict[str, Any] = {"request_id": f"cmpl-{n:08x}", "cohort": f"cohort-{n % 5}", "prompt_tokens": 500}
        made.add("core", "request", came, event="admitted", kv_blocks=10, **known)
        if came + STAY_S < seconds:
            made.add("core", "request", came + STAY_S, event="finished", kv_blocks=40, output_tokens=100, **known)
    made.add(
        "rank3", "oom", seconds, 3, resource="device", api="torch", error_type="torch.OutOfMemoryError", fatal=True,
        requested_bytes=2 * GIB, free_bytes=GIB, total_bytes=80 * GIB, message="CUDA out of memory.",
    )  # fmt: skip
    with storage.connect() as connection:
        storage.load_rows(connection, made.rows)
        storage.write_parquet(connection, path, "oomctl benchmarks")
    return len(made.rows)


def _rank(made: _Rows, rank: int, seconds: int) -> None:
    """Its life, and each second its allocator and its device; every fifth its components."""
    stream = f"rank{rank}"
    for second, phase in enumerate(("spawned", "loading", "weights_loaded", "kv_allocated", "ready")):
        made.add(stream, "lifecycle", second, rank, phase=phase)
    for second in range(5, seconds):
        grown = second * 10_000_000
        wave = (second * 7919 + rank * 104_729) % 500 * 1_000_000
        made.add(stream, "allocator", second, rank, allocated_bytes=60 * GIB + wave, reserved_bytes=64 * GIB + grown)
        made.add(stream, "device", second, rank, total_bytes=80 * GIB, free_bytes=14 * GIB - grown)
        if second % 5 == 0:
            for component, size in (("weights", 30 * GIB), ("kv_pool", 25 * GIB), ("activation", wave)):
                made.add(stream, "memory", second, rank, component=component, owner="steady", bytes=size)
