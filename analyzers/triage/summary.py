"""The verdict in one sentence."""

from oomctl.analyzers.triage import death, host, ray, silent
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.words import printed, size
from oomctl.schemas.verdict import Incident

_WHILE = {
    "load_time": "while loading the model",
    "warm_up": "while warming up",
    "prefill_spike": "while computing prompts",
    "decode_growth": "because running requests outgrew the KV pool",
    "fragmentation": "although enough was free, in pieces that did not fit",
    "recovery": "while old and new resources overlapped",
}


def summary(case: Case, incident: Incident) -> str:
    """One sentence for a reader who reads only one."""
    root = case.root
    if incident.verdict == "capacity_gate":
        return _gate(case, incident)
    if root["what"] == "death":
        if incident.verdict == "not_oom":
            return f"Not a memory death: {death.reason(root)}"
        return f"The engine died; nothing recorded says whether memory was the reason: {death.reason(root)}"
    if root["name"] == "other_process_killed":
        says = host.of_another(case)
        return f"{says[:1].upper()}{says[1:]}."
    if root["name"] == "evicted":
        says = host.evicted(root)
        return f"{says[:1].upper()}{says[1:]}."
    if incident.verdict == "not_oom":
        return f"Not a lack of memory: {root['name'].replace('_', ' ')}."
    if incident.verdict is None:
        return _undetermined(case, incident)
    when = _while(incident) if incident.oom_class else f"({incident.phase or 'phase unknown'})"
    monitored = ray.monitor(case)
    if monitored is not None:
        return f"{ray.says(monitored)}."
    if incident.resource == "host":
        which = "Shared memory (/dev/shm)" if root["api"] == host.SHARED else "Host memory"
        return f"{which} ran out {when if incident.oom_class else ''}".rstrip() + "."
    if incident.resource == "kv_blocks":
        return f"KV blocks ran out {when}{'; the worker went on' if incident.survived else ''}."
    asked = ""
    if incident.requested_bytes is not None:
        asked = f": {size(incident.requested_bytes)} asked for"
        if incident.short_bytes is not None and incident.short_bytes > 0:
            asked += f", short by {size(incident.short_bytes)}"
    went_on = "; the worker went on" if incident.survived else ""
    return f"Device memory ran out {when}{asked}{went_on}."


def _while(incident: Incident) -> str:
    """What was being done; a cache that no pool bounds has outgrown the device."""
    if incident.oom_class == "decode_growth" and any(cause.cause == "kv_growth" for cause in incident.causes):
        return "because the KV cache of running sequences grew"
    return _WHILE[incident.oom_class] if incident.oom_class else ""


def _undetermined(case: Case, incident: Incident) -> str:
    silence = silent.of(case)
    if silence is None:
        return "The worker stopped answering; nothing recorded says that memory was the reason."
    says = f"{silence.says[:1].upper()}{silence.says[1:]}"
    if incident.causes and incident.causes[0].cause == "host_pressure":
        return f"{says}. Before, {incident.causes[0].detail}."
    if incident.resource == "host":
        return f"{says}; without the kernel's log this may or may not be host memory."
    return f"{says}."


def _gate(case: Case, incident: Incident) -> str:
    gate = case.gate or {}
    if gate.get("gate") == "admission":
        tokens = f": it needs {gate['needed_tokens']} tokens of KV cache" if gate["needed_tokens"] is not None else ""
        there = f", {gate['available_tokens']} are there" if gate["available_tokens"] is not None else ""
        return f"A request was turned down for want of KV cache{tokens}{there}."
    if gate.get("available_tokens") is not None and gate.get("needed_bytes") == gate.get("available_bytes"):
        tokens, there = gate["needed_tokens"], gate["available_tokens"]
        needs = "more KV cache than there is" if tokens is None else f"{tokens} tokens of KV cache"
        return f"The engine refused to start: one request may need {needs}, {there} tokens are available."
    if gate.get("needed_bytes") is not None and gate.get("available_bytes") is not None:
        resolution = gate.get("resolution_bytes")
        needed, there = printed(gate["needed_bytes"], resolution), printed(gate["available_bytes"], resolution)
        return f"The engine refused to start: it wants {needed}, {there} are available."
    if incident.short_bytes is not None:
        return f"The engine refused to start: its budget is short by {size(incident.short_bytes)} before any KV cache."
    return "The engine refused to start for want of memory; no allocation had failed."
