"""The failing batch, and whether one of its shape had run before."""

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow

LARGE_REQUEST_SHARE = 0.0025
"""Of the device (200 MiB of 80 GiB): smaller requests are served from split blocks and small segments."""


def failing_batch(case: Case) -> EvidenceRow | None:
    """The batch that failed: as dumped, else the last one printed before."""
    rows = case.ask("batch")
    return next((row for row in rows if row["dumped"]), rows[0] if rows else None)


def cached_enough(case: Case) -> bool:
    """Whether a large request failed although the allocator had cached more than that: the naive sign of fragmentation."""
    requested, cached = case.figures["requested_bytes"], case.figures["cached_free_bytes"]
    share = case.share(requested)
    if case.root["resource"] != "device" or requested is None or cached is None or share is None:
        return False
    return bool(cached >= requested and share >= LARGE_REQUEST_SHARE)


def done_before(case: Case) -> list[EvidenceRow]:
    """Earlier batches of the failing batch's shape, or larger, the latest first.

    The chunks of one long prompt are alike in tokens and attend to more with each: batches just before the failure that
    only ever filled the pool further count as such chunks, not as the same shape done before. A batch without any prompt
    in between tells two prompts apart.
    """
    batch = failing_batch(case)
    if batch is None or not batch["prefill_tokens"]:
        return []
    earlier = [row for row in case.ask("batch") if not row["dumped"] and row is not batch]
    if batch["dumped"] and earlier and earlier[0]["prefill_tokens"] == batch["prefill_tokens"]:
        earlier = earlier[1:]  # most likely the failing batch itself, printed as it began
    later, growing, apart = _fill(case, batch), True, False
    done = []
    for row in earlier:
        tokens = row["prefill_tokens"] or 0
        apart = apart or not tokens or row["mode"] == "prompt"
        if tokens > batch["prefill_tokens"]:
            done.append(row)
        elif tokens == batch["prefill_tokens"]:
            fill = _fill(case, row)
            growing = growing and fill is not None and later is not None and fill <= later
            later = fill
            if apart or (not growing and fill is not None):
                done.append(row)
    return done


def _fill(case: Case, row: EvidenceRow) -> float | None:
    """Use of the pool as last reported at a row."""
    for report in case.ask("kv_usage"):
        if (report["line"] is not None and report["line"] == row["line"]) or report["seq"] <= row["seq"]:
            ratio: float = report["usage_ratio"]
            return ratio
    return None
