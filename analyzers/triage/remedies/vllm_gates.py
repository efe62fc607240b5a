"""Remedies for vLLM's refusals to start."""

import math
import re
from collections.abc import Iterator

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.words import printed, size
from oomctl.schemas.verdict import Incident, Remedy

STEP = 0.01
_ESTIMATE = re.compile(r"estimated maximum model length is (\d{1,12})")


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to change, by the gate."""
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
        yield _fitting_length(case, incident)
    elif incident.causes and incident.causes[0].cause == "over_committed_budget":
        yield Remedy(
            when="change",
            action="Give the engine more of the device, or fewer bytes of weights per device.",
            setting="--gpu-memory-utilization higher, or --tensor-parallel-size",
            quality="estimated",
        )


def _fitting_length(case: Case, incident: Incident) -> Remedy:
    """The longest request that the pool holds: by the engine's own estimate, else by the tokens that it printed."""
    gate = case.gate or {}
    estimate = _ESTIMATE.search(gate.get("message") or "")
    tokens = int(estimate[1]) if estimate is not None else gate.get("available_tokens")
    said = []
    if gate.get("needed_bytes") is not None:
        needed = printed(gate["needed_bytes"], gate.get("resolution_bytes"))
        said.append(
            f"one request needs {needed}, the pool holds {printed(gate['available_bytes'], gate['resolution_bytes'])}"
        )
    if estimate is not None and tokens:
        said.append(f"the engine estimates that {tokens} tokens fit")
    return Remedy(
        when="change",
        action="Allow shorter requests, or give the KV pool more.",
        setting=f"--max-model-len {tokens}" if tokens else "--max-model-len lower",
        short_bytes=incident.short_bytes,
        arithmetic="; ".join(said),
    )
