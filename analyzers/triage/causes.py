"""The chain of causes: what to mend first, then what made it possible."""

from oomctl.analyzers.triage import death, host, silent
from oomctl.analyzers.triage import foreign as others_held
from oomctl.analyzers.triage.assess import Assessment
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import cite
from oomctl.analyzers.triage.foreign import Foreign
from oomctl.analyzers.triage.logits import explain as explain_logits
from oomctl.analyzers.triage.words import percent, size
from oomctl.schemas.verdict import Cause

NON_FRAMEWORK_SHARE = 0.05
"""Of the device: contexts, libraries and collectives normally take 0.2 to 1.5 GiB of 80."""
OTHER_DEATH = "other_failure"
TOLD_BY_FIGURES = ("limit", "other_process", "non_torch")
"""Of the fit test's causes, those that have a link of their own, from the message's figures."""
HIGH_UTILIZATION = 0.95
"""gpu_memory_utilization from which the budget leaves little for what is not in the profile."""


def chain(case: Case, chosen: Assessment | None, others: Foreign) -> list[Cause]:
    """The causes of an incident, in the order in which to mend them."""
    if case.root["what"] == "death":
        return [Cause(cause=OTHER_DEATH, detail=death.reason(case.root), cites=cite([case.root]))]
    if case.root["what"] == "oom" and case.root["resource"] == "host":
        # What else the classes say is about the device.
        lives = [cause for cause in (chosen.causes if chosen is not None else []) if cause.cause == "earlier_incarnation"]
        return lives + host.causes(case)
    if case.root["what"] in ("killed", "fault"):
        return host.pressure(case)[0] if silent.of(case) is not None else []
    causes = list(chosen.causes) if chosen is not None else _unclassified(case, others)
    causes = [explain_logits(case, cause) for cause in causes]
    foreign = others_held.cause(case, others)
    if foreign is not None and not any(cause.cause == "earlier_incarnation" for cause in causes):
        if others_held.dominates(case, others):
            causes.insert(0, foreign)
        else:
            causes.append(foreign)
    mates = others_held.misplaced(case, others)
    if mates is not None:
        causes.insert(0 if mates.cause == "ranks_on_one_device" else len(causes), mates)
    if case.of_library:
        causes.insert(0, _library(case))
    if case.capped:
        causes.insert(0, _cap(case))
    if case.root["what"] == "oom" and case.root["resource"] == "device":
        causes += _device(case)
    if case.heap is not None and not any(cause.cause == case.heap.why for cause in causes):
        causes += [cause for cause in case.heap.causes() if cause.cause not in TOLD_BY_FIGURES]
    masked = [row for row in case.members if row.get("api") == "nvml_assert"]
    if masked:
        detail = "the out-of-memory message itself was lost: NVML did not answer the allocator (MIG, containers, Tegra)"
        causes.append(Cause(cause="masked_by_nvml_assert", detail=detail, cites=cite(masked[:1])))
    return causes


def _unclassified(case: Case, others: Foreign) -> list[Cause]:
    """Causes that need no class: a gate says what it wanted."""
    return _of_gate(case, others) if case.root["what"] == "refusal" and case.gate is not None else []


def _cap(case: Case) -> Cause:
    """The limit that the process has set on itself."""
    limit, free = case.figures["limit_bytes"], case.figures["free_bytes"]
    detail = (
        f"set_per_process_memory_fraction, or a PyTorch memory fraction, allows this process {size(limit)}"
        + (f" of {size(case.total_bytes)}" if case.total_bytes else "")
        + (f"; {size(free)} were free on the device" if free is not None else "")
    )
    return Cause(cause="memory_fraction_cap", bytes=limit, detail=detail, cites=cite([case.root]))


def _library(case: Case) -> Cause:
    name = str(case.root["api"])
    detail = f"{name} could not allocate its handle or workspace, which lies outside the framework's cache"
    return Cause(cause="library_workspace", detail=detail, cites=cite([case.root]))


def _of_gate(case: Case, others: Foreign) -> list[Cause]:
    gate = case.gate
    assert gate is not None
    if others.bytes is not None and gate["gate"] in ("start_memory", "kv_blocks", "memory_profiling"):
        return []
    if gate["gate"] in ("kv_fits_request", "admission"):
        short = None
        if gate["needed_bytes"] is not None and gate["available_bytes"] is not None:
            short = gate["needed_bytes"] - gate["available_bytes"] or None  # 0: less than the print resolution
        detail = "one request of the maximum length needs more KV cache than the whole pool"
        return [
            Cause(cause="oversized_request", bytes=short, tokens=gate["needed_tokens"], detail=detail, cites=cite([gate]))
        ]
    if gate["resource"] == "host":
        detail = "the model needs more of the system's memory than is free"
        if gate["gate"] == "host_pool":
            detail = "the KV cache in host memory is to be larger than what is free there; each rank asks for its own"
        return [Cause(cause="host_limit", bytes=gate["needed_bytes"], detail=detail, cites=cite([gate]))]
    detail = "weights and activations leave nothing of the budget for the KV pool"
    if gate["gate"] == "start_memory":
        detail = "the budget asks for more than is free on an otherwise empty device"
    needed = gate["needed_bytes"]
    if needed is None and (gate["available_bytes"] or 0) < 0:
        needed = -gate["available_bytes"]
        detail = f"weights and activations take {size(needed)} more than the whole budget, before any KV pool"
    return [Cause(cause="over_committed_budget", bytes=needed, detail=detail, cites=cite([gate]))]


def _device(case: Case) -> list[Cause]:
    found = []
    outside = case.figures["non_framework_bytes"]
    if outside is not None and (case.share(outside) or 0) >= NON_FRAMEWORK_SHARE:
        detail = (
            f"{size(outside)} of this process is outside the framework's allocator: contexts, collectives, graphs, kernels"
        )
        found.append(Cause(cause="non_torch_growth", bytes=outside, detail=detail, cites=cite([case.root])))
    utilization = case.argument("gpu_memory_utilization")
    value = case.number("gpu_memory_utilization")
    if utilization is not None and value is not None and value >= HIGH_UTILIZATION:
        kept = case.total_bytes
        headroom = None if kept is None else round(kept * (1 - value))
        left = f"{percent(1 - value)} of the device" if headroom is None else size(headroom)
        detail = f"gpu_memory_utilization {percent(value)} leaves {left} for what the profile did not see"
        found.append(Cause(cause="over_committed_budget", bytes=headroom, detail=detail, cites=cite([utilization])))
    return found
