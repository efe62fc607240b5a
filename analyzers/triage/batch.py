"""The failing batch, and whether one of its shape had run before."""

import re

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow

LARGE_REQUEST_SHARE = 0.0025
"""Of the device (200 MiB of 80 GiB): smaller requests are served from split blocks and small segments."""
GROWN_ENTRY = r"\bcat\(.{0,40}\b(?:key|value)_cache\["
"""An entry that holds something already: a prompt's own keys and values are put in its place, not copied behind."""
_GROWS = re.compile(r"\bcat\(.{0,80}\b(?:past|cache)|\bcat\(.{0,20}\b(?:keys?|values?)_cache|" + GROWN_ENTRY)


def failing_batch(case: Case) -> EvidenceRow | None:
    """The batch that failed: as dumped, else the last one printed before."""
    rows = case.ask("batch")
    return next((row for row in rows if row["dumped"]), rows[0] if rows else None)


def cache_copy(case: Case) -> list[EvidenceRow]:
    """The innermost frame, where it copies a cache without a pool into a larger tensor."""
    stacks = [row["stack_id"] for row in case.members if row["what"] == "oom" and row["stack_id"] is not None]
    frames = case.ask("innermost", stack_id=stacks[0]) if stacks else []
    found = [frame for frame in frames if _GROWS.search(frame["code"] or "") or _in_cache(frame)]
    return found[:1]


def _in_cache(frame: EvidenceRow) -> bool:
    return "cache_utils" in (frame["file"] or "") and re.search(r"\bcat\(", frame["code"] or "cat(") is not None


def cached_enough(case: Case) -> bool:
    """Whether a large request failed although the allocator had cached more than that: the naive sign of fragmentation."""
    requested, cached = case.figures["requested_bytes"], case.figures["cached_free_bytes"]
    share = case.share(requested)
    if case.root["resource"] != "device" or requested is None or cached is None or share is None:
        return False
    return bool(cached >= requested and share >= LARGE_REQUEST_SHARE)


def split_and_retried(case: Case) -> list[EvidenceRow]:
    """The allocator's counters, where earlier requests found no block either, but were served once others were given back.

    What is left cached then are parts of blocks in use, which are seldom in one piece: they must hold the request twice.
    """
    requested = case.figures["requested_bytes"]
    rows = case.ask("allocator") if cached_enough(case) else []
    return [
        row
        for row in rows
        if row["ooms"] is not None
        and row["alloc_retries"] > row["ooms"]
        and (row["inactive_split_bytes"] or 0) >= 2 * requested
    ]


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
