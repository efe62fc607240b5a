"""A ledger with what a log or a recording measured: entries beside the predicted ones, and the summary's figures."""

from typing import TYPE_CHECKING

import msgspec

from oomctl import queries
from oomctl.schemas.ledger import GIB, Component, Entry, Ledger, Lifetime, Summary

if TYPE_CHECKING:
    import duckdb

LIFETIMES: dict[Component, Lifetime] = {"activation": "iteration", "logits": "iteration", "kv_pool": "request"}
"""Of measured components; the others stay as long as the worker."""
PEAK: tuple[Component, ...] = ("activation", "non_torch", "graph_pool")
"""What makes the runtime peak, beside weights and KV pool."""


def measure(ledger: Ledger, connection: "duckdb.DuckDBPyConnection", latency_us: dict[str, float] | None = None) -> Ledger:
    """The ledger with every component that an event table measured, rank by rank.

    Args:
        ledger: As predicted.
        connection: With the event table and its views.
        latency_us: Measured in the same configuration, kept beside the peak.
    """
    found = []
    for stream, _, line, rank, component, owner, size, _ in connection.execute(
        queries.load("evidence", "measured_memory").sql
    ).fetchall():
        found.append(
            Entry(
                component=component,
                lifetime=LIFETIMES.get(component, "worker"),
                owner=owner or "measured",
                rank=rank or 0,
                bytes=size,
                quality="measured",
                source=stream if line is None else f"{stream}:{line}",
            )
        )
    summary = _summary(ledger.summary, found)
    kept = {**ledger.latency_us, **(latency_us or {})}
    return msgspec.structs.replace(ledger, measured=found, summary=summary, latency_us=kept)


def _summary(predicted: Summary, measured: list[Entry]) -> Summary:
    """Of the rank that limits: the most weights, the highest peak, the least pool."""
    ranks = sorted({entry.rank for entry in measured})
    weights = [size for rank in ranks if (size := _held(measured, rank, ("weights",))) is not None]
    peaks = [size for rank in ranks if (size := _held(measured, rank, PEAK)) is not None]
    pools = [size for rank in ranks if (size := _held(measured, rank, ("kv_pool",))) is not None]
    return msgspec.structs.replace(
        predicted,
        measured_weight_steady_gib_per_rank=_gib(max(weights, default=None)),
        measured_runtime_peak_gib_per_rank=_gib(max(peaks, default=None)),
        kv_pool_gib_per_rank=_gib(min(pools, default=None)) if pools else predicted.kv_pool_gib_per_rank,
    )


def _held(measured: list[Entry], rank: int, components: tuple[Component, ...]) -> int | None:
    """Bytes of those of the components that were measured; None where none was."""
    own = [entry.bytes for entry in measured if entry.rank == rank and entry.component in components]
    known = [size for size in own if size is not None]
    return sum(known) if known else None


def _gib(size: int | None) -> float | None:
    return None if size is None else round(size / GIB, 4)
