"""Who was in the batch and in the queue, and what the allocator looked like."""

from oomctl.analyzers.triage.batch import failing_batch
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import cite
from oomctl.schemas.verdict import AllocatorState, Cohort

MAX_REQUESTS = 16


def cohort_at_oom(case: Case) -> Cohort | None:
    """The batch and the queue at the failure, or None where nothing of them was printed."""
    batch, usage, size = failing_batch(case), case.ask("kv_usage"), case.ask("kv_size")
    requests = case.ask("requests")
    if batch is None and not usage and not requests:
        return None
    report = usage[0] if usage else {}
    total = next((row["total_tokens"] for row in size if row["total_tokens"] is not None), None)
    batch = batch or {}
    prefill, decode = batch.get("prefill_tokens"), batch.get("decode_tokens")
    scheduled = None if prefill is None and decode is None else (prefill or 0) + (decode or 0)
    shown = [row for row in (batch, report, *requests[:1]) if row]
    keys = ("request_id", "event", "prompt_tokens", "computed_tokens", "scheduled_tokens", "output_tokens")
    return Cohort(
        running_requests=_first(report.get("running_requests"), batch.get("running_requests")),
        waiting_requests=_first(report.get("waiting_requests"), batch.get("waiting_requests")),
        scheduled_tokens=scheduled,
        prefill_tokens=prefill,
        kv_usage_ratio=report.get("usage_ratio"),
        kv_total_tokens=total,
        kv_used_tokens=report.get("used_tokens"),
        requests=tuple({key: row[key] for key in keys if row[key] is not None} for row in requests[:MAX_REQUESTS]),
        cites=cite(shown),
    )


def allocator_at_oom(case: Case) -> AllocatorState | None:
    """The allocator: the message's figures, corrected, and what its snapshot tells; None where neither is there."""
    figures, heap = case.figures, case.heap
    if case.root["resource"] != "device" or (figures["requested_bytes"] is None and heap is None):
        return None
    cached, requested = figures["cached_free_bytes"], figures["requested_bytes"]
    fits = None if cached is None or requested is None else cached >= requested
    note = "sums only: whether one free block was large enough is in an allocator snapshot" if fits and heap is None else ""
    state = AllocatorState(
        requested_bytes=requested,
        device_free_bytes=figures["free_bytes"],
        allocated_bytes=figures["allocated_true_bytes"],
        cached_free_bytes=cached,
        private_pool_free_bytes=figures["private_free_bytes"],
        fits_in_cache=fits,
        note=note,
    )
    return state if heap is None else heap.told(state)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
