"""OOM003 prefill_spike: long prompts ask for activations, logits, workspace and new KV at once."""

from statistics import median

from oomctl.analyzers.triage.assess import Assessment, frame_words
from oomctl.analyzers.triage.batch import (
    cached_enough,
    done_before,
    failing_batch,
    of_holes,
    of_many_tokens,
    split_and_retried,
)
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.words import percent
from oomctl.schemas.verdict import Cause

LARGE_PREFILL_TOKENS = 512
"""Scheduled prompt tokens from which a batch is a prefill that counts: below, it is as small as a decode batch."""
MIN_REPORTS = 3
"""With prompt throughput, from which a rise can be told from the ordinary."""
RISE = 1.5
"""Of the latest such report over the median of those before."""


def assess(case: Case) -> Assessment:
    """Evidence for and against a spike while prompts were computed."""
    result = Assessment("prefill_spike")
    if case.root["what"] not in ("oom", "pressure"):
        return result
    if case.root["name"] == "prefill_out_of_memory":
        result.add("the KV allocator failed while admitting prompts", 0.85, [case.root])
        result.causes.append(
            _cause(case, "oversized_request", "prompts were admitted that the pool cannot hold", [case.root])
        )
        return result
    if case.of_library:
        return result  # a handle or workspace is not in proportion to the prompt
    serving = case.stage == "serving" or case.frame_phase == "serving"
    if not serving or case.frame_phase in ("recovery", "warm_up", "load_time") or not _of_tensors(case):
        return result
    batch = failing_batch(case)
    if batch is not None and (batch["prefill_tokens"] or 0) >= LARGE_PREFILL_TOKENS:
        certainty = 0.75 if batch["dumped"] else 0.6
        result.add(f"the batch was to compute {batch['prefill_tokens']} prompt tokens", certainty, [batch])
    elif batch is not None and batch["dumped"] and batch["mode"] == "prefill" and batch["prefill_tokens"] is None:
        result.add("the call that failed was a prefill", 0.55, [batch])
    frames = case.frames_of("serving", "prefill", "logits", "encoder")
    if frames:
        result.add(
            f"the allocation was made for a prompt: {frame_words(frames)}", max(f["weight"] for f in frames), frames[:3]
        )
    layer = of_many_tokens(case)[:1]
    if not frames and layer:
        says = f"a layer asked for it, for more than one token of each sequence takes: {frame_words(layer)}"
        result.add(says, 0.6, layer)
    pool = case.frames_of("any", "pool")[:1]
    if not frames and pool and case.stage == "serving":
        result.add("the pool of a batch's temporary buffers was to grow: no batch before had needed as much", 0.6, pool)
    usage = case.ask("kv_usage")
    if batch is None or not batch["prefill_tokens"]:
        _prompt_load(case, result, usage)
    if usage and usage[0]["usage_ratio"] < 0.9 and result.evidence:
        result.add(f"KV blocks were not short: {percent(usage[0]['usage_ratio'])} of the pool was used", 0.2, usage[:1])
    decode = case.frames_of("serving", "decode")
    if decode and not frames:
        result.object(f"the allocation was made for a decode step: {frame_words(decode)}", 0.6, decode[:1])
    if batch is not None and batch["dumped"] and batch["prefill_tokens"] == 0:
        result.object("the failing batch held no prompt", 0.8, [batch])
    done = done_before(case) if cached_enough(case) else []
    if done:
        result.object("a batch of that size had run before, and enough was cached: it is not the size alone", 0.6, done[:1])
    elif split_and_retried(case):
        says = "enough was cached, in pieces, and the allocator had gone on after earlier retries: it is not the size alone"
        result.object(says, 0.4, split_and_retried(case))
    elif of_holes(case):
        result.object("many times as much was cached, between blocks in use: it is not the size alone", 0.4, [case.root])
    if result.evidence:
        logits = case.frames_of("serving", "logits")
        if case.encoder:
            detail = "images, video or sound are encoded outside the text model's batch"
            result.causes.append(_cause(case, "multimodal_encoder", detail, case.encoder[:1]))
        elif logits:
            result.causes.append(_cause(case, "logits", "logits or scores over many positions at once", logits[:1]))
        else:
            result.causes.append(_chunk(case, batch))
    return result


def _of_tensors(case: Case) -> bool:
    """Whether it was the memory that the model computes in; an engine on the CPU has its tensors in the host's."""
    if case.root["resource"] == "host":
        return bool(case.frames_of("serving", "prefill", "logits", "encoder"))
    return case.root["resource"] in ("device", None)


def _prompt_load(case: Case, result: Assessment, usage: list[EvidenceRow]) -> None:
    """Prompt throughput just before: vLLM prints no batches, but it prints how many prompt tokens it computes."""
    reports = [row for row in usage[:6] if row["prompt_tokens_per_s"]]
    if len(reports) < MIN_REPORTS or reports[0] is not usage[0] or any(row["mode"] is not None for row in usage[:6]):
        return
    latest, before = reports[0]["prompt_tokens_per_s"], median(row["prompt_tokens_per_s"] for row in reports[1:])
    busiest = max(row["prompt_tokens_per_s"] for row in usage if row["prompt_tokens_per_s"] is not None)
    generation = reports[0]["generation_tokens_per_s"] or 0
    if latest >= RISE * before and latest >= 0.75 * busiest and latest > 4 * generation:
        says = f"prompts were being computed at {latest:.0f} tokens/s, up from {before:.0f} in the reports before"
        result.add(says, 0.5, [reports[0], reports[-1]])


def _chunk(case: Case, batch: EvidenceRow | None) -> Cause:
    requests = case.ask("requests") if batch is not None and batch["dumped"] else []
    rows = [row for row in ([batch] if batch is not None else []) if row]
    if requests and batch is not None and (requests[0]["scheduled_tokens"] or 0) * 4 >= 3 * (batch["prefill_tokens"] or 0):
        longest = (requests[0]["computed_tokens"] or 0) + (requests[0]["scheduled_tokens"] or 0)
        detail = f"one request fills the batch; its context has reached {longest} tokens"
        return Cause(
            cause="oversized_request",
            bytes=case.figures["requested_bytes"],
            tokens=longest,
            detail=detail,
            cites=cite(rows),
        )
    return _cause(case, "prefill_activation", "activations and workspace of a large prompt batch", rows)


def _cause(case: Case, name: str, detail: str, rows: list[EvidenceRow]) -> Cause:
    return Cause(
        cause=name,
        bytes=case.figures["requested_bytes"],
        tokens=case.figures["requested_tokens"],
        detail=detail,
        cites=cite(rows),
    )
