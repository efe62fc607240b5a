"""Remedies for vLLM. Flags as `vllm serve` spells them in 0.6 to 0.33."""

import math
from collections.abc import Iterator

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies.general import fewer_requests
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy

STEP = 0.01


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to change, by class and by the first cause."""
    causes = {cause.cause for cause in incident.causes}
    if incident.verdict == "capacity_gate":
        yield from _gate(case, incident)
    elif incident.oom_class == "warm_up":
        yield from _utilization(case, incident, "The KV pool took what the warm-up needed: give it a smaller share.")
        if "sampler_warm_up" in causes:
            yield from _halve(case, incident, "max_num_seqs", "Warm the sampler up for fewer sequences.")
        elif "graph_capture" in causes:
            yield Remedy(
                when="change",
                action="Capture fewer and smaller graphs, or none.",
                setting="--max-num-seqs lower, or --enforce-eager",
                short_bytes=incident.short_bytes,
                quality="estimated",
            )
    elif incident.oom_class == "load_time":
        yield from _load(case, incident, causes)
    elif incident.oom_class == "prefill_spike":
        yield from _halve(case, incident, "max_num_batched_tokens", "Compute prompts in smaller chunks.")
        yield from _utilization(case, incident, "Leave more of the device to activations.")
    elif incident.oom_class == "decode_growth":
        yield from _decode(case, incident)
    elif incident.oom_class == "recovery":
        yield from _recovery(case, incident, causes)


def _utilization(case: Case, incident: Incident, action: str) -> Iterator[Remedy]:
    """Lower gpu_memory_utilization by as many hundredths as free what was short."""
    current, total, short = case.number("gpu_memory_utilization"), case.total_bytes, incident.short_bytes
    if total is None:
        return
    step_bytes = round(total * STEP)
    steps = max(1, math.ceil((short or 0) * 1.2 / step_bytes)) if short is not None and short > 0 else 2
    frees = steps * step_bytes
    if current is None:
        yield Remedy(
            when="change",
            action=action,
            setting=f"--gpu-memory-utilization lower by {steps * STEP:.2f}",
            frees_bytes=frees,
            short_bytes=short,
            arithmetic=f"{steps * STEP:.2f} x {size(total)} = {size(frees)} against {size(short)} short",
        )
        return
    target = current - steps * STEP
    if target > 0:
        yield Remedy(
            when="change",
            action=action,
            setting=f"--gpu-memory-utilization {target:.2f}",
            frees_bytes=frees,
            short_bytes=short,
            arithmetic=f"({current:.2f} - {target:.2f}) x {size(total)} = {size(frees)} against {size(short)} short",
        )


def _halve(case: Case, incident: Incident, argument: str, action: str) -> Iterator[Remedy]:
    current = case.number(argument)
    flag = "--" + argument.replace("_", "-")
    requested = incident.requested_bytes
    if current is None or current < 2:
        yield Remedy(
            when="change", action=action, setting=f"{flag} lower", short_bytes=incident.short_bytes, quality="estimated"
        )
        return
    frees = None if requested is None else requested // 2
    yield Remedy(
        when="change",
        action=action,
        setting=f"{flag} {int(current) // 2}",
        frees_bytes=frees,
        short_bytes=incident.short_bytes,
        arithmetic=f"the failed {size(requested)} grows with it; half of it is {size(frees)}" if requested else "",
        quality="estimated",
    )


def _load(case: Case, incident: Incident, causes: set[str]) -> Iterator[Remedy]:
    """Lowering gpu_memory_utilization does not help here: the budget is not used before the weights are loaded."""
    if "staging_copy" in causes:
        yield Remedy(
            when="change",
            action="Serve a checkpoint that is quantised already: online quantisation holds both copies of a layer.",
            setting="--model CHECKPOINT-FP8 without --quantization",
            short_bytes=incident.short_bytes,
            quality="estimated",
        )
    tensor = case.number("tensor_parallel_size", "tp_size") or 1
    framework = case.figures["framework_bytes"]
    frees = None if framework is None else framework // 2
    yield Remedy(
        when="change",
        action="Spread the weights over more devices; --gpu-memory-utilization does not help before they are loaded.",
        setting=f"--tensor-parallel-size {int(tensor) * 2}",
        frees_bytes=frees,
        short_bytes=incident.short_bytes,
        arithmetic=f"about half of {size(framework)} moves to the other devices" if framework else "",
        quality="estimated",
    )
    yield Remedy(
        when="change",
        action="Or keep part of the weights in host memory.",
        setting="--cpu-offload-gb N",
        short_bytes=incident.short_bytes,
        quality="estimated",
    )


def _decode(case: Case, incident: Incident) -> Iterator[Remedy]:
    yield fewer_requests(case, incident, "--max-num-seqs", case.number("max_num_seqs"))
    yield Remedy(
        when="change",
        action="Halve the KV bytes per token, if the model's quality allows.",
        setting="--kv-cache-dtype fp8",
        quality="estimated",
        arithmetic="twice the tokens in the same pool, where the cache was 16 bit",
    )


def _gate(case: Case, incident: Incident) -> Iterator[Remedy]:
    gate = case.gate
    if gate is None:
        return
    if gate["gate"] == "start_memory" and gate["total_bytes"]:
        share = math.floor((gate["available_bytes"] or 0) / gate["total_bytes"] * 100) / 100 - STEP
        if share > 0.1:
            yield Remedy(
                when="change",
                action="Or budget for what is free now; the weights must fit into it.",
                setting=f"--gpu-memory-utilization {share:.2f}",
                arithmetic=f"{size(gate['available_bytes'])} of {size(gate['total_bytes'])} are free",
            )
    elif gate["gate"] == "kv_fits_request":
        tokens = case.gate["available_tokens"] if case.gate else None
        setting = f"--max-model-len {tokens}" if tokens else "--max-model-len lower"
        yield Remedy(
            when="change",
            action="Allow shorter requests, or give the KV pool more.",
            setting=setting,
            short_bytes=incident.short_bytes,
            arithmetic=f"one request needs {size(gate['needed_bytes'])}, the pool holds {size(gate['available_bytes'])}"
            if gate["needed_bytes"] is not None
            else "",
        )
    elif incident.causes and incident.causes[0].cause == "over_committed_budget":
        yield Remedy(
            when="change",
            action="Give the engine more of the device, or fewer bytes of weights per device.",
            setting="--gpu-memory-utilization higher, or --tensor-parallel-size",
            quality="estimated",
        )


def _recovery(case: Case, incident: Incident, causes: set[str]) -> Iterator[Remedy]:
    if "wake_up_overlap" in causes:
        yield Remedy(
            when="change",
            action="Wake up only after the other process has given its memory back; wake weights first, then KV cache.",
            setting="POST /wake_up?tags=weights, then POST /wake_up?tags=kv_cache",
            short_bytes=incident.short_bytes,
        )
    elif "earlier_incarnation" in causes:
        yield Remedy(
            when="change",
            action="Start the new worker only when the device is empty: wait for it, and roll out without surge.",
            setting="strategy.rollingUpdate.maxSurge: 0, and a wait on nvidia-smi's used memory before `vllm serve`",
            frees_bytes=incident.causes[0].bytes,
            short_bytes=incident.short_bytes,
        )
    elif "adapter_load" in causes:
        yield Remedy(
            when="change", action="Reserve slots for adapters at the start.", setting="--max-loras N", quality="estimated"
        )
    yield from _utilization(case, incident, "Leave room for old and new together.")
