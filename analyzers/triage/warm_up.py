"""OOM002 warm_up: profiling, autotuning, compilation, graph capture or the KV pool itself needs more than was left."""

import re

from oomctl.analyzers.triage import recovery
from oomctl.analyzers.triage.assess import Assessment, frame_words, told
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.foreign import held_by_an_earlier_life
from oomctl.schemas.verdict import Cause

CAUSES = {
    "autotune": (
        "autotuning",
        "an autotuner tries kernels that need a buffer of their own; lazily, at the first such request",
    ),
    "sampler": ("sampler_warm_up", "the sampler is run once for max_num_seqs requests: logits of sequences x vocabulary"),
    "capture": ("graph_capture", "graphs are captured into a pool of their own, after the KV pool has taken the rest"),
    "kv_pool": ("kv_pool_allocation", "the KV pool was sized to more than was left"),
    "profile": ("profiling_run", "the profiling run executes the largest batch that is allowed"),
    "kernels": ("kernel_warm_up", "kernels are run once for the largest shapes"),
    "compute": ("compute_buffers", "the working memory of the largest batch is reserved once, beside weights and KV cache"),
    "compile": ("compilation", "the compiler runs the model on example inputs"),
}
"""By the part of the warm-up, the most telling first."""

_ENCODER = "the profiling run encodes images, video or sound of the largest size, as many as a prompt may hold"

_HANDLE = re.compile(r"(?i)(?:cublas|cudnn|cusolver|cusparse|hipblas|rocblas)\w*?(?:create|_handle)")
"""Calls that make a library's handle."""

_MESSAGES = (
    ("when warming up sampler", "sampler"),
    ("Capture cuda graph failed", "capture"),
    ("OOM detected", "autotune"),
)


def assess(case: Case) -> Assessment:
    """Evidence for and against a failure while warming up."""
    result = Assessment("warm_up")
    part = None
    frames = case.frames_of("warm_up")
    if frames and case.frame_phase == "warm_up":
        parts = {frame["part"] for frame in frames}
        part = next((part for part in CAUSES if part in parts), None)
        shown = (case.frames_of("warm_up", part) if part else []) + case.frames_of("warm_up")
        result.add(
            f"the allocation was made while warming up: {frame_words(shown)}", max(f["weight"] for f in frames), shown[:3]
        )
        lazy = case.frames_of("serving", "step")
        if lazy and part == "autotune" and case.stage == "serving":
            result.add("it was the first request of its shape, so the warm-up was a lazy one", 0.2, shown[:1])
    for text, of_text in _MESSAGES:
        said = [row for row in case.members if text in (row.get("message") or "")]
        if said:
            result.add(f"the engine says so itself ({text})", 0.6, said[:1])
            part = part or of_text
    reported_part, weight, reported = told(case, "warm_up")
    if reported:
        result.add("the engine reports it of what it makes after the weights", weight, reported)
        part = reported_part if part in (None, "kernels") else part
    handle = _first_handle(case)
    if handle:
        result.add("a library's handle is made at its first use: a lazy part of the warm-up", 0.55, handle)
        part = part or "kernels"
    if case.stage == "warm_up" and case.frame_phase in (None, "warm_up", "serving"):
        result.add("the weights were loaded and the server was not ready yet", 0.5, case.stage_rows)
        if part is None and case.stage_rows and case.stage_rows[0]["phase"] == "capturing":
            part = "capture"
    masked = [row for row in case.members if row.get("api") == "nvml_assert"]
    if masked:
        result.add("the allocator failed while it composed its out-of-memory message: NVML did not answer", 0.3, masked[:1])
    again = recovery.under_way(case)
    if again and case.frame_phase != "warm_up":
        result.object("it had loaded a model before, and loads anew beside what it holds", 0.6, again[:1])
    overlap = held_by_an_earlier_life(case)
    if overlap:
        result.object("the device was already taken by a life of the worker that had ended", 0.6, overlap[:2])
    if case.root["resource"] == "kv_blocks":
        result.object("KV blocks ran out, which needs running requests", 0.9, [case.root])
    if case.stage == "serving" and case.frame_phase != "warm_up" and not handle:
        result.object("the server was ready and serving", 0.7, case.stage_rows)
    if result.evidence:
        name, detail = CAUSES.get(part or "", ("warm_up_peak", "the warm-up needs more than was left"))
        shown = (case.frames_of("warm_up", part) if part else [])[:1] or (reported if part == reported_part else [])
        if case.encoder and part in ("profile", None):
            result.add(f"images, video or sound were being encoded: {frame_words(case.encoder)}", 0.2, case.encoder[:1])
            name, detail, shown = "multimodal_encoder", _ENCODER, case.encoder[:1]
        result.causes.append(Cause(cause=name, bytes=case.figures["requested_bytes"], detail=detail, cites=cite(shown)))
    return result


def _first_handle(case: Case) -> list[EvidenceRow]:
    """The failure of a library's handle, where nothing had been computed before: later ones are of further threads."""
    if not case.of_library or case.frame_phase in ("recovery", "load_time"):
        return []
    said = [row for row in case.members if _HANDLE.search(row.get("message") or "")]
    made = [frame for frame in case.ask_of("stack_frames", [case.root]) if _HANDLE.search(frame["function"] or "")]
    if not (said or made) or case.ask("kv_usage") or len(case.ask("batch")) > 1:
        return []
    return said[:1] or [case.root]
