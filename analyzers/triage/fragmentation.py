"""OOM005 fragmentation: enough bytes are free, none in the size or the pool that is needed.

Rare; the naive test misleads.
"""

from typing import TYPE_CHECKING

from oomctl.analyzers.triage.assess import Assessment
from oomctl.analyzers.triage.batch import cached_enough, done_before, failing_batch, of_holes, split_and_retried
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import cite
from oomctl.analyzers.triage.words import percent, size, times
from oomctl.schemas.verdict import Cause

if TYPE_CHECKING:
    from oomctl.analyzers.triage.heap import Heap


def assess(case: Case) -> Assessment:
    """Evidence for and against memory that is free but does not fit.

    That the cached bytes add up to more than the request is true of about half of all failures and right for a fifth of
    them (reference: 13 of 22, right for 5), so it never decides alone.
    """
    result = Assessment("fragmentation")
    if case.heap is not None and case.heap.why is not None:
        return _tested(case.heap, result)
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
            f"{size(figures['free_bytes'])} were free on the device, more than the {size(requested)} asked for: the driver "
            "could not map them in one piece",
            0.4,
            [case.root],
        )
    if not cached_enough(case):
        return result
    result.add(
        f"{size(cached)} lay reserved but unallocated, more than the {size(requested)} asked for",
        0.35,
        [case.root],
    )
    if case.frame_phase in ("load_time", "recovery") or case.stage == "loading":
        shown = case.frames_of(case.frame_phase)[:1] if case.frame_phase else case.stage_rows
        result.object("while loading, cached blocks are leftovers of the copies that overlap", 0.8, shown)
    batch, done, holes = failing_batch(case), done_before(case), of_holes(case)
    if holes is not None:
        says = (
            f"{size(holes)} of it, {holes / requested:.0f} times the request, lay between blocks in use: before it fails, "
            "PyTorch gives back every cached segment that no block uses"
        )
        result.add(says, 0.5, [case.root])
    if done:
        tokens = done[0]["prefill_tokens"]
        result.add(f"a batch of the same size or larger ({tokens} prompt tokens) had succeeded before", 0.6, done[:1])
    elif split_and_retried(case):
        row = split_and_retried(case)[0]
        says = (
            f"the allocator had given cached blocks back {times(row['alloc_retries'] - row['ooms'])} and gone on; now "
            f"{size(row['inactive_split_bytes'])} were parts of blocks in use"
        )
        result.add(says, 0.6, [row])
    elif batch is not None and batch["prefill_tokens"] and holes is None:
        result.object("no batch of that size is known to have succeeded before", 0.5, [batch])
    if result.evidence:
        detail = f"{percent(cached / requested)} of the request was cached, in pieces"
        result.causes.append(Cause(cause="cached_blocks_do_not_fit", bytes=cached, detail=detail, cites=cite([case.root])))
    return result


def _tested(heap: "Heap", result: Assessment) -> Assessment:
    """The allocator's snapshot decides: a fit test by pool and stream knows more than sums."""
    if heap.why == "fragmentation" and heap.fit is not None:
        gain = next(margin.reclaim_bytes for margin in heap.fit.margins if margin.cause == "fragmentation")
        result.add(
            f"{size(gain)} lay in holes of the request's own pool, {size(heap.fit.short_bytes)} were short; "
            f"the largest free block has {size(heap.fit.eligible_largest_bytes)}",
            0.9,
            [heap.row],
        )
        result.causes += heap.causes()
    else:
        result.object(f"the allocator's blocks tell another reason: {heap.why}", 0.9, [heap.row])
    return result
