"""The failing batch, and whether one of its shape had run before."""

import re

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow

LARGE_REQUEST_SHARE = 0.0025
"""Of the device (200 MiB of 80 GiB): smaller requests are served from split blocks and small segments."""
GROWN_ENTRY = r"\bcat\(.{0,40}\b(?:key|value)_cache\["
"""An entry that holds something already: a prompt's own keys and values are put in its place, not copied behind."""
_GROWS = re.compile(r"\bcat\(.{0,80}\b(?:past|cache)|\bcat\(.{0,20}\b(?:keys?|values?)_cache|" + GROWN_ENTRY)


MAX_TOKEN_BYTES = 2 * 2**20
"""More than a layer asks for at once for one token: 8 experts of 28,672 values twice over, or a vocabulary of 256,000,
take 1 to 2 MiB in 32 bits."""
MAX_ADAPTER_TOKEN_BYTES = 64 * 2**10
"""The same of a LoRA adapter's product of low rank: 8 experts of 3 slices of rank 512 take 48 KiB in 32 bits."""
MOST_REQUESTS = 4096
"""At once, where neither a limit nor a report tells: no engine's own limit is higher (SGLang's is this, vLLM's 1,024)."""
HOLES = 4
"""Times the request that lay in holes, from which their mere sum tells: of public reports, those that failed for another
reason while serving had at most twice (the reference's naive test, with which half of all failures pass)."""


def ran_at_once(case: Case) -> int | None:
    """The most requests that ran at once before the failure, where that was reported."""
    ran = [row["running_requests"] for row in case.ask("kv_usage") if row["running_requests"]]
    ran += [member["running_before"] for member in case.members if member.get("running_before")]
    return max(ran, default=None)


def of_many_tokens(case: Case) -> list[EvidenceRow]:
    """The layer that asked for more than one token of each running request can take, innermost first.

    An engine's limit of requests counts, else twice of what was seen to run, else the most that any engine allows; a
    library's loop has no such limit, and there the size of the request must do.
    """
    adapter = case.frames_of("any", "adapter")
    layer = adapter or [frame for frame in case.layers if not re.search(r"logits|sampler", frame["file"] or "")]
    requested = case.figures["requested_bytes"]
    if not layer or requested is None or case.frames_of("serving", "decode") or cache_copy(case):
        return []
    if case.of_script:
        return layer if (case.share(requested) or 0) >= LARGE_REQUEST_SHARE else []
    most = case.number("max_num_seqs", "max_running_requests") or 2 * (ran_at_once(case) or 0) or MOST_REQUESTS
    return layer if requested > most * (MAX_ADAPTER_TOKEN_BYTES if adapter else MAX_TOKEN_BYTES) else []


def holes_bytes(case: Case) -> int | None:
    """Bytes in holes between blocks in use, of pools that would have served the request; None where that is not to be said.

    Before it gives up, PyTorch gives back every cached segment that no block uses, except while a graph is captured. What
    is cached then and belongs to no private pool lies between blocks in use. Releases before 2.4 do not tell private pools
    apart: there the graphs that were captured are taken off. Expandable segments give their pages back too.
    """
    cached = case.figures["cached_free_bytes"]
    if case.root.get("api") not in ("torch", None) or case.capped or case.argument("expandable_segments") is not None:
        return None
    if cached is None or case.stage != "serving" or case.frame_phase not in (None, "serving"):
        return None
    if case.figures["private_free_bytes"] is not None:
        return int(cached)
    graphs = [row["bytes"] for row in case.ask("components") if row["component"] == "graph_pool" and row["bytes"]]
    return int(cached - max(graphs, default=0))


def of_holes(case: Case) -> int | None:
    """Those bytes, where they are so many times the request that their sum tells."""
    holes, requested = holes_bytes(case) if cached_enough(case) else None, case.figures["requested_bytes"]
    return holes if holes is not None and holes >= HOLES * requested else None


def failing_batch(case: Case) -> EvidenceRow | None:
    """The batch that failed: as dumped, else the last one printed before."""
    rows = case.ask("batch")
    return next((row for row in rows if row["dumped"]), rows[0] if rows else None)


def cache_copy(case: Case) -> list[EvidenceRow]:
    """The innermost frame, where it copies a cache without a pool into a larger tensor."""
    traced = [row for row in case.members if row["what"] == "oom" and row["stack_id"] is not None]
    frames = case.ask_of("innermost", traced[:1])
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
