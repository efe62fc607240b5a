"""Predicted beside measured, rank by rank, with what remains between them."""

from typing import TYPE_CHECKING

import msgspec

from oomctl import queries
from oomctl.schemas.ledger import Ledger

if TYPE_CHECKING:
    import duckdb


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """A component of one rank; None where one side does not know it."""

    component: str
    rank: int
    predicted_bytes: int | None
    quality: str | None
    """Of the prediction: estimated if any of its entries is."""
    measured_bytes: int
    resolution_bytes: int | None
    remainder_bytes: int | None
    """Measured less predicted, never clamped."""
    line: int | None
    stream: str
    seq: int


def reconcile(ledger: Ledger, connection: "duckdb.DuckDBPyConnection") -> list[Reconciled]:
    """Every measured component of an event table beside the ledger's.

    Args:
        ledger: Its ranks are the first of each pipeline stage, for which the tensor-parallel others stand too.
        connection: With the event table and its views.
    """
    sql = queries.load("evidence", "measured_memory").sql
    found = []
    for stream, seq, line, rank, component, _, size, resolution in connection.execute(sql).fetchall():
        own = rank or 0
        first = own // ledger.tensor_parallel * ledger.tensor_parallel
        predicted = ledger.total(component, first)
        qualities = {entry.quality for entry in ledger.entries if (entry.component, entry.rank) == (component, first)}
        quality = None if predicted is None else "estimated" if "estimated" in qualities else "predicted"
        found.append(
            Reconciled(
                component=component,
                rank=own,
                predicted_bytes=predicted,
                quality=quality,
                measured_bytes=size,
                resolution_bytes=resolution,
                remainder_bytes=None if predicted is None else size - predicted,
                line=line,
                stream=stream,
                seq=seq,
            )
        )
    return found
