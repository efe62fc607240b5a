"""Remedies for SGLang. Flags as `sglang serve` spells them in 0.3 to 0.5."""

from collections.abc import Iterator

from oomctl.analyzers.triage.assess import MULTIMODAL
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies import budget
from oomctl.analyzers.triage.remedies.general import fewer_requests
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to change, by class and by the first cause."""
    if any(cause.cause == "library_workspace" for cause in incident.causes):
        yield from _static(case, incident, "Leave more of the device outside the static part, for handles and workspaces.")
    elif incident.oom_class == "warm_up":
        yield from _static(case, incident, "Weights and KV pool took what the capture needed: give them a smaller share.")
        yield _lower(case, incident, "cuda_graph_max_bs", "Capture graphs for smaller batches.")
    elif incident.oom_class == "prefill_spike":
        if case.called(MULTIMODAL):
            yield Remedy(
                when="change",
                action="Allow fewer images or videos in a request, and scale them down in the clients.",
                setting='--limit-mm-data-per-request \'{"image": 1, "video": 0}\'',
                short_bytes=incident.short_bytes,
                quality="estimated",
            )
        else:
            yield _lower(case, incident, "chunked_prefill_size", "Compute prompts in smaller chunks.")
        if incident.resource != "kv_blocks":  # a smaller pool would make that worse
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
    """Lower mem_fraction_static by as many hundredths as free what was short; it holds weights and KV pool only."""
    yield from budget.lower(case, incident, "mem_fraction_static", action, ("weights",))


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
