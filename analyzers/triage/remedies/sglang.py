"""Remedies for SGLang. Flags as `sglang serve` spells them in 0.3 to 0.5."""

import math
from collections.abc import Iterator

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies.general import fewer_requests
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy

STEP = 0.01


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to change, by class."""
    if incident.oom_class == "warm_up":
        yield from _static(case, incident, "Weights and KV pool took what the capture needed: give them a smaller share.")
        yield _lower(case, incident, "cuda_graph_max_bs", "Capture graphs for smaller batches.")
    elif incident.oom_class == "prefill_spike":
        yield _lower(case, incident, "chunked_prefill_size", "Compute prompts in smaller chunks.")
        yield from _static(case, incident, "Leave more of the device to activations.")
    elif incident.oom_class == "decode_growth":
        yield fewer_requests(case, incident, "--max-running-requests", case.number("max_running_requests"))
        yield Remedy(
            when="change",
            action="Admit more carefully: reserve more of each request's expected output.",
            setting="--schedule-conservativeness 1.3",
            quality="estimated",
        )
    elif incident.oom_class == "load_time":
        tensor = case.number("tp_size", "tensor_parallel_size") or 1
        framework = case.figures["framework_bytes"]
        yield Remedy(
            when="change",
            action="Spread the weights over more devices; --mem-fraction-static does not help before they are loaded.",
            setting=f"--tp {int(tensor) * 2}",
            frees_bytes=None if framework is None else framework // 2,
            short_bytes=incident.short_bytes,
            arithmetic=f"about half of {size(framework)} moves to the other devices" if framework else "",
            quality="estimated",
        )
    elif incident.oom_class == "recovery":
        yield from _static(case, incident, "Leave room for old and new together.")
    elif incident.verdict == "capacity_gate":
        yield Remedy(
            when="change",
            action="Give the static part more of the device, or spread the weights.",
            setting="--mem-fraction-static higher, or --tp",
            quality="estimated",
        )


def _static(case: Case, incident: Incident, action: str) -> Iterator[Remedy]:
    """Lower mem_fraction_static by as many hundredths as free what was short."""
    current, total, short = case.number("mem_fraction_static"), case.total_bytes, incident.short_bytes
    if total is None:
        yield Remedy(
            when="change", action=action, setting="--mem-fraction-static lower", short_bytes=short, quality="estimated"
        )
        return
    step_bytes = round(total * STEP)
    steps = max(1, math.ceil((short or 0) * 1.2 / step_bytes)) if short is not None and short > 0 else 2
    frees = steps * step_bytes
    target = None if current is None else current - steps * STEP
    setting = (
        f"--mem-fraction-static lower by {steps * STEP:.2f}" if target is None else f"--mem-fraction-static {target:.2f}"
    )
    yield Remedy(
        when="change",
        action=action,
        setting=setting,
        frees_bytes=frees,
        short_bytes=short,
        arithmetic=f"{steps * STEP:.2f} x {size(total)} = {size(frees)} against {size(short)} short",
    )


def _lower(case: Case, incident: Incident, argument: str, action: str) -> Remedy:
    current = case.number(argument)
    flag = "--" + argument.replace("_", "-")
    setting = f"{flag} {int(current) // 2}" if current is not None and current >= 2 else f"{flag} lower"
    requested = incident.requested_bytes
    return Remedy(
        when="change",
        action=action,
        setting=setting,
        frees_bytes=None if requested is None else requested // 2,
        short_bytes=incident.short_bytes,
        arithmetic=f"the failed {size(requested)} grows with it" if requested is not None else "",
        quality="estimated",
    )
