"""Remedies for vLLM. Flags as `vllm serve` spells them in 0.6 to 0.33."""

from collections.abc import Iterator

from oomctl.analyzers.triage.assess import MULTIMODAL, PROMPT_LOGPROBS
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies import budget, vllm_gates
from oomctl.analyzers.triage.remedies.general import fewer_requests
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy

BUDGETED = ("weights", "activation", "non_torch")
_OUTSIDE = "Leave more of the device outside the budget, for handles and workspaces of the libraries."


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to change, by class and by the first cause."""
    causes = {cause.cause for cause in incident.causes}
    if incident.verdict == "capacity_gate":
        yield from vllm_gates.change(case, incident)
    elif "library_workspace" in causes:
        yield from _utilization(case, incident, _OUTSIDE)
    elif incident.oom_class == "warm_up":
        yield from _warm_up(case, incident, causes)
    elif incident.oom_class == "load_time":
        yield from _load(case, incident, causes)
    elif incident.oom_class == "prefill_spike":
        yield from _prefill(case, incident)
    elif incident.oom_class == "decode_growth":
        yield from _decode(case, incident)
    elif incident.oom_class == "recovery":
        yield from _recovery(case, incident, causes)


def _warm_up(case: Case, incident: Incident, causes: set[str]) -> Iterator[Remedy]:
    if _profiling(case):
        yield from _profile(case, incident, causes)
        return
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


def _profiling(case: Case) -> bool:
    """Whether it was the profiling run, before there was a KV pool: the budget's size has no effect yet."""
    if not case.frames_of("warm_up", "profile") or case.frames_of("warm_up", "capture", "kv_pool"):
        return False
    return not any(row["phase"] == "kv_allocated" for row in case.ask("phases")) and not case.has_pool


def _profile(case: Case, incident: Incident, causes: set[str]) -> Iterator[Remedy]:
    if case.called(MULTIMODAL):
        yield from _multimodal(incident, "Profile with fewer images: the run encodes as many as a prompt may hold.")
    tokens = list(_halve(case, incident, "max_num_batched_tokens", "Profile a smaller batch; no KV pool exists yet."))
    sequences = list(_halve(case, incident, "max_num_seqs", "Profile fewer sequences: their logits are sampled too."))
    yield from sequences + tokens if "sampler_warm_up" in causes else tokens + sequences
    tensor = case.number("tensor_parallel_size", "tp_size") or 1
    yield Remedy(
        when="change",
        action="Or spread the weights over more devices; --gpu-memory-utilization has no effect before the KV pool exists.",
        setting=f"--tensor-parallel-size {int(tensor) * 2}",
        short_bytes=incident.short_bytes,
        quality="estimated",
    )


def _prefill(case: Case, incident: Incident) -> Iterator[Remedy]:
    if case.called(MULTIMODAL):
        yield from _multimodal(incident, "Allow fewer images or videos in a prompt.")
    elif case.called(PROMPT_LOGPROBS):
        yield Remedy(
            when="change",
            action="Refuse prompt_logprobs, or switch it off in the clients: it computes logits at every prompt position.",
            setting="--max-logprobs 0",
            short_bytes=incident.short_bytes,
            quality="estimated",
        )
        yield from _halve(case, incident, "max_num_batched_tokens", "Compute prompts in smaller chunks.")
    else:
        yield from _halve(case, incident, "max_num_batched_tokens", "Compute prompts in smaller chunks.")
    yield from _utilization(case, incident, "Leave more of the device to activations.")


def _multimodal(incident: Incident, action: str) -> Iterator[Remedy]:
    for setting, what in (
        ('--limit-mm-per-prompt \'{"image": 1, "video": 0}\'', action),
        ("--mm-processor-kwargs '{\"max_pixels\": 1003520}'", "Scale images down before they are encoded."),
    ):
        yield Remedy(when="change", action=what, setting=setting, short_bytes=incident.short_bytes, quality="estimated")


def _utilization(case: Case, incident: Incident, action: str) -> Iterator[Remedy]:
    """Lower gpu_memory_utilization by as many hundredths as free what was short."""
    yield from budget.lower(case, incident, "gpu_memory_utilization", action, BUDGETED)


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
        yield from _adapters(case, incident)
    yield from _utilization(case, incident, "Leave room for old and new together.")


def _adapters(case: Case, incident: Incident) -> Iterator[Remedy]:
    """An adapter takes a slot of its rank on the device; what does not fit into the slots can wait in host memory."""
    slots = case.number("max_loras")
    for setting, action in (
        (
            f"--max-loras {int(slots) // 2}" if slots and slots >= 2 else "--max-loras lower",
            "Keep fewer adapters on the device.",
        ),
        ("--max-lora-rank lower", "Or reserve for adapters of a lower rank, as far as those that are served allow."),
        ("--max-cpu-loras higher", "Or keep more of the adapters in host memory, and swap them into fewer slots."),
    ):
        yield Remedy(when="change", action=action, setting=setting, short_bytes=incident.short_bytes, quality="estimated")
