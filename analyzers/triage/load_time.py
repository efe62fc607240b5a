"""OOM001 load_time: weights, layout conversion and staging copies overlap while loading."""

import re
from typing import TYPE_CHECKING

from oomctl.analyzers.triage import recovery
from oomctl.analyzers.triage.assess import Assessment, frame_words, told
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import cite
from oomctl.analyzers.triage.foreign import held_by_an_earlier_life
from oomctl.analyzers.triage.words import percent, size
from oomctl.schemas.verdict import Cause

if TYPE_CHECKING:
    from oomctl.analyzers.triage.heap import Heap

_CAUSES = {
    "staging": ("staging_copy", "a layer's weights exist twice while they are converted or quantised"),
    "reservation": ("allocator_reservation", "the loader reserves the whole model in one piece before it reads it"),
    "load": ("weights_exceed_device", "the weights of this rank do not fit"),
    "create": ("weights_exceed_device", "the weights of this rank do not fit"),
    "move": ("weights_exceed_device", "the model is moved to the device as a whole"),
}

MOSTLY = 0.9
"""Share of the allocated memory from which it is said to be of one kind."""
_SAID = re.compile(r"Failed to load model|executing load_single_module")


def assess(case: Case) -> Assessment:
    """Evidence for and against a failure while loading."""
    result = Assessment("load_time")
    frames = case.frames_of("load_time")
    if frames and case.frame_phase == "load_time":
        result.add(
            f"the allocation was made while loading: {frame_words(frames)}", max(f["weight"] for f in frames), frames[:3]
        )
        parts = {frame["part"] for frame in frames}
        part = next((part for part in _CAUSES if part in parts), "load")
        name, detail = _CAUSES[part]
        shown = case.frames_of("load_time", part)[:1]
        result.causes.append(Cause(cause=name, bytes=case.figures["requested_bytes"], detail=detail, cites=cite(shown)))
    _, weight, reported = told(case, "load_time")
    if reported:
        result.add("the engine reports it of its weights", weight, reported)
    said = [row for row in case.members if _SAID.search(row.get("message") or "")]
    if said:
        result.add("the engine says that it failed to load the model", 0.7, said[:1])
    given_up = [row for row in case.ask("deaths") if "failed to load model" in (row["detail"] or "").lower()]
    if given_up and not said:
        result.add("the engine gave up loading the model", 0.6, given_up[:1])
    if case.stage == "loading" and case.frame_phase in (None, "load_time", "serving"):
        host = case.root["resource"] == "host" and case.root["what"] == "oom"
        # A kill from outside leaves no frame: the phase is all that there can be.
        result.add("the worker had begun to load and had not finished", 0.55 if host else 0.45, case.stage_rows)
        if case.root["what"] == "oom" and case.root["resource"] == "device" and not case.frames and not case.has_pool:
            result.add("nothing of what is made after the weights was there", 0.15, case.stage_rows)
        if not result.causes and case.root["what"] == "oom" and not host:
            result.causes.append(
                Cause(cause="weights_exceed_device", bytes=case.figures["requested_bytes"], detail=_CAUSES["load"][1])
            )
    if case.heap is not None:
        _held(case, case.heap, result)
    if case.root["resource"] == "kv_blocks":
        result.object("the KV pool ran out, which does not exist while loading", 0.95, [case.root])
    again = recovery.under_way(case)
    if again:
        result.object("it had loaded a model before, and loads anew beside what it holds", 0.7, again[:1])
    overlap = held_by_an_earlier_life(case)
    if overlap:
        result.object("the device was already taken by a life of the worker that had ended", 0.6, overlap[:2])
    if case.stage in ("serving", "warm_up") and case.frame_phase not in ("load_time",):
        result.object("the weights had been loaded before", 0.6, case.stage_rows)
    if case.heap is not None and case.heap.why == "driver_refusal":
        result.causes = [cause for cause in result.causes if cause.cause != "weights_exceed_device"]  # there was room
    elif not result.causes and result.evidence:
        result.causes.append(
            Cause(
                cause="weights_exceed_device",
                bytes=case.figures["requested_bytes"],
                detail=f"short by {size(case.figures['short_bytes'])}",
            )
        )
    return result


def _held(case: Case, heap: "Heap", result: Assessment) -> None:
    """Who held the allocator's memory: weights alone, or also what is made after them."""
    weights = heap.share("weights")
    later = heap.share("kv_pool", "graph_pool", "activation", "logits")
    if weights >= MOSTLY and later <= 1 - MOSTLY and case.frame_phase in (None, "load_time"):
        says = f"{percent(weights)} of what was allocated are weights"
        says += ", and nothing that is made after them" if not later else f", {percent(later)} what is made after them"
        result.add(says, 0.8, heap.rows_of("weights"))
        if not result.causes:
            detail = f"{size(heap.held['weights'])} of weights were on the device"
            cites = cite(heap.rows_of("weights"))
            result.causes.append(
                Cause(cause="weights_exceed_device", bytes=heap.held["weights"], detail=detail, cites=cites)
            )
    elif heap.share("kv_pool") > 1 - MOSTLY:
        result.object("the KV pool had been made, which comes after the weights", 0.6, heap.rows_of("kv_pool"))
