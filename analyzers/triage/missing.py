"""What was not recorded, and which collector, or which command run now, would have told."""

from oomctl.analyzers.triage import silent
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.commands import SNAPSHOT, processes
from oomctl.analyzers.triage.foreign import Foreign
from oomctl.schemas.verdict import Missing

_NO_CLASS = frozenset({"other_process_killed", "evicted"})
"""Roots of which no phase of the worker would tell more."""


def missing(case: Case, undecided: bool, others: Foreign) -> list[Missing]:
    """What would have made the verdict surer."""
    root, figures = case.root, case.figures
    found = silent.missing(case)
    holders = processes(root.get("api"), root.get("message"))
    if root["resource"] == "device" and root["what"] == "oom":
        if figures["requested_bytes"] is None:
            found.append(
                Missing(what="the size asked for and what was free: the message carries no figures", collector="agent")
            )
        if case.heap is not None and case.heap.inferred:
            found.append(
                Missing(what="the failed allocation: the history was too short for it", collector="agent", command=SNAPSHOT)
            )
        if not any(member.get("stack_id") for member in case.members):
            found.append(Missing(what="a traceback that tells what was being done", collector="agent"))
        if figures["own_process_bytes"] is None or (others.bytes is not None and not others.names):
            found.append(Missing(what="which processes held the device", collector="nvml", command=holders))
        if case.stage == "serving" and not case.ask("batch"):
            found.append(Missing(what="which requests were in the batch", collector="agent"))
        cached = figures["cached_free_bytes"]
        if (
            case.heap is None
            and cached is not None
            and figures["requested_bytes"] is not None
            and cached >= figures["requested_bytes"]
        ):
            found.append(Missing(what="the allocator's blocks, pool by pool", collector="agent", command=SNAPSHOT))
    if root["resource"] == "device" and root["what"] == "refusal" and others.bytes is not None and not others.earlier:
        found.append(Missing(what="who held the device before the start", collector="nvml", command=holders))
    if root["what"] == "pressure":
        found.append(Missing(what="preemptions, which this engine counts but does not log", collector="prometheus"))
    if undecided and not found and root["what"] != "refusal" and root["name"] not in _NO_CLASS:
        # A gate needs no class, and what befell somebody else has none.
        told = any(member.get("stack_id") for member in case.members)
        what = "how the memory had grown before" if told else "what the worker was doing"
        found.append(Missing(what=what, collector="agent"))
    return found
