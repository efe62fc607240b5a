"""OOM005 fragmentation: enough bytes are free, none in the size or the pool that is needed. Rare; the naive test misleads."""

from oomctl.analyzers.triage.assess import Assessment
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import cite
from oomctl.analyzers.triage.prefill_spike import failing_batch
from oomctl.analyzers.triage.words import percent, size
from oomctl.schemas.verdict import Cause

LARGE_REQUEST_SHARE = 0.0025
"""Of the device (200 MiB of 80 GiB): smaller requests are served from split blocks and small segments."""
CLOSE_SHARE = 0.1
"""A request that misses the free device memory by less than this share of itself is squeezed, not fragmented."""


def assess(case: Case) -> Assessment:
    """Evidence for and against memory that is free but does not fit.

    That the cached bytes add up to more than the request is true of about half of all failures and right for a fifth of
    them (reference: 13 of 22, right for 5), so it never decides alone.
    """
    result = Assessment("fragmentation")
    figures = case.figures
    requested, cached = figures["requested_bytes"], figures["cached_free_bytes"]
    share = case.share(requested)
    if (
        case.root["what"] != "oom"
        or case.root["resource"] != "device"
        or requested is None
        or cached is None
        or share is None
    ):
        return result
    if figures["limit_bytes"] is None and figures["free_bytes"] is not None and figures["free_bytes"] >= requested:
        result.add(
            f"{size(figures['free_bytes'])} were free on the device, more than the {size(requested)} asked for: the driver could "
            "not map them in one piece",
            0.4,
            [case.root],
        )
    if cached < requested or share < LARGE_REQUEST_SHARE:
        return result
    result.add(
        f"{size(cached)} lay reserved but unallocated, more than the {size(requested)} asked for",
        0.35,
        [case.root],
    )
    if case.frame_phase in ("load_time", "recovery") or case.stage == "loading":
        shown = case.frames_of(case.frame_phase)[:1] if case.frame_phase else case.stage_rows
        result.object("while loading, cached blocks are leftovers of the copies that overlap", 0.8, shown)
    batch = failing_batch(case)
    earlier = [row for row in case.ask("batch") if not row["dumped"]]
    if batch is not None and not batch["dumped"]:
        earlier = earlier[1:]
    tokens = (batch or {}).get("prefill_tokens")
    if tokens:
        done = [row for row in earlier if (row["prefill_tokens"] or 0) >= tokens]
        if done:
            result.add(
                f"a batch of the same size or larger ({done[0]['prefill_tokens']} prompt tokens) had succeeded before",
                0.6,
                done[:1],
            )
        else:
            result.object(
                "no batch of that size had succeeded before: it is simply the largest so far", 0.5, [batch] if batch else []
            )
    if result.evidence:
        detail = f"{percent(cached / requested)} of the request was cached, in pieces"
        result.causes.append(Cause(cause="cached_blocks_do_not_fit", bytes=cached, detail=detail, cites=cite([case.root])))
    return result
