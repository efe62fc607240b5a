"""OOM004 decode_growth: all sequences grow and the free KV blocks run out: stalls, preemptions, retractions or an error."""

import re

from oomctl.analyzers.triage.assess import Assessment, frame_words
from oomctl.analyzers.triage.batch import GROWN_ENTRY, cache_copy, failing_batch
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.words import count, percent, times
from oomctl.schemas.verdict import Cause

FULL = 0.95
_WAITED = {
    "no_kv_cells": "the cache had no cells for the next batch",
    "cache_blocks": "a request found too few free blocks and was dropped",
    "retraction_failed": "one request alone was more than the pool holds, and was given up",
    "context_shift": "a sequence had filled its part of the cache and gave up half of it",
}
"""What a request had to put up with where nothing was sent back to the queue."""


def assess(case: Case) -> Assessment:
    """Evidence for and against a KV pool that growth has exhausted."""
    result = Assessment("decode_growth")
    if case.root["resource"] == "device":
        _growing_tensors(case, result)
        return result
    if case.root["resource"] != "kv_blocks" or case.root["what"] == "refusal":
        return result
    given_back = [row for row in case.members if row["name"] in ("retraction", "preemption") and row["what"] == "oom"]
    waited = [row for row in case.members if row["name"] in _WAITED and row["soft"]]
    pressure = [row for row in case.members if row["what"] == "pressure"]
    failed = [row for row in case.members if row["what"] == "oom" and not row["soft"]]
    decode = [row for row in failed if row["name"] == "decode_out_of_memory"]
    if decode:
        result.add("the KV allocator failed in a decode step", 0.8, decode[:1])
    elif failed and failed[0]["name"] != "prefill_out_of_memory":
        result.add("the KV allocator had nothing left for running requests", 0.75, failed[:1])
    frames = case.frames_of("serving", "decode")
    if frames:
        result.add(f"the blocks were asked for by running requests: {frame_words(frames)}", 0.6, frames[:2])
    if given_back:
        result.add(
            f"requests were sent back to the queue {times(len(given_back))} for want of KV blocks", 0.85, given_back[:3]
        )
    for name, says in _WAITED.items():
        rows = [row for row in waited if row["name"] == name]
        if rows:
            result.add(f"{says}, {times(len(rows))}", 0.75, rows[:3])
    if pressure:
        _pressure(result, pressure)
    usage = case.ask("kv_usage")
    if usage and usage[0]["usage_ratio"] >= FULL:
        rising = [row for row in usage[:8] if row["usage_ratio"] is not None]
        words = f"the pool was {percent(usage[0]['usage_ratio'])} full"
        grew = len(rising) > 1 and rising[0]["usage_ratio"] > rising[-1]["usage_ratio"]
        result.add(
            words + (f", up from {percent(rising[-1]['usage_ratio'])}" if grew else ""), 0.4, [rising[0], rising[-1]]
        )
    if case.root["name"] == "prefill_out_of_memory":
        result.object("the allocator failed while admitting prompts, not while decoding", 0.8, [case.root])
    if result.evidence:
        swap = [row for row in failed if row["name"] == "swap_exhausted"]
        if swap:
            detail = "requests that were sent back wait in host memory, and the space reserved for them there was full"
            result.causes.append(Cause(cause="swap_space_exhausted", detail=detail, cites=cite(swap[:1])))
        result.causes.append(_cause(case, given_back, pressure))
    return result


def _growing_tensors(case: Case, result: Assessment) -> None:
    """Without a pool, each step copies the cache of the running sequences into a larger tensor of the device."""
    frames, batch = cache_copy(case), failing_batch(case)
    if not frames or case.frames_of("serving", "prefill") or case.frame_phase not in (None, "serving"):
        return
    stepped = case.frames_of("serving", "decode")
    if (batch is not None and batch["mode"] == "decode") or stepped or re.search(GROWN_ENTRY, frames[0]["code"] or ""):
        result.add("the cache of running sequences was being copied into a larger one", 0.7, frames)
        if stepped:
            result.add(f"a sequence that runs was given its next token: {frame_words(stepped)}", 0.3, stepped[:1])
        detail = "the cache of running sequences grows by a copy at each step; no pool bounds it"
        grown = Cause(cause="kv_growth", bytes=case.figures["requested_bytes"], detail=detail, cites=cite(frames))
        result.causes.append(grown)


def _pressure(result: Assessment, pressure: list[EvidenceRow]) -> None:
    """Reports in which running requests went back to the queue. One may be chance; several are not."""
    first = pressure[0]
    full = f"with the pool {percent(max(row['usage_ratio'] for row in pressure))} full"
    fell = f"running requests fell from {count(first['running_before'])} to {count(first['running_requests'])}"
    grew = f"the queue grew from {count(first['waiting_before'])} to {count(first['waiting_requests'])}"
    if first["running_before"] is None:
        result.add(f"{full}, {count(first['lost'])} requests lay swapped out", 0.6, pressure[:1])
    else:
        result.add(f"{full}, {fell} while {grew}", 0.6, pressure[:1])
    if len(pressure) > 1:
        later = len(pressure) - 1
        result.add(
            f"the same in {later} later report{'s' if later > 1 else ''}",
            min(0.3 + 0.1 * len(pressure), 0.7),
            pressure[1:4],
        )


def _cause(case: Case, given_back: list[EvidenceRow], pressure: list[EvidenceRow]) -> Cause:
    tokens = case.figures["requested_tokens"]
    if given_back or pressure:
        shown = (given_back or pressure)[:1]
        detail = "blocks that running requests need are taken from others, which are computed again later"
        return Cause(cause="preemption_storm", tokens=tokens, detail=detail, cites=cite(shown))
    return Cause(
        cause="kv_pool_exhausted", tokens=tokens, detail="running requests outgrew the pool", cites=cite([case.root])
    )
