"""The host's memory: who was killed, who held most, what the limit was, and how full it was before a silent end."""

from oomctl.analyzers.triage import ray
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite, statement
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Cause, Evidence

_KILLS = frozenset({"oom_kill", "other_process_killed"})
SHARED = "shm"
"""Who reports that a segment of shared memory could not be had."""
FULL_SHARE = 0.97
"""Of the host's memory in use: from there on the kernel has nothing to give."""


def causes(case: Case) -> list[Cause]:
    """Who ended it, or what failed, in the host's memory; the largest holder first where that was somebody else."""
    root = case.root
    if root["name"] != "oom_kill":
        asked = case.figures["requested_bytes"]
        detail = "an allocation in host memory failed"
        if root["api"] == SHARED:
            detail = "shared memory (/dev/shm) was full"
        return [Cause(cause="host_allocation", bytes=asked, detail=detail, cites=cite([root]))]
    biggest = largest_holder(case)
    neighbour = [] if biggest is None else [_neighbour(biggest)]
    monitored = ray.monitor(case)
    if monitored is not None:
        return [*neighbour, ray.cause(monitored)]
    limit = limit_told(case)
    held = case.figures["own_process_bytes"]
    victim = next((row["victim"] for row in case.members if row.get("victim")), None)
    detail = f"the process {victim}" if victim else "the process"
    detail = f"{detail} held {size(held)} of host memory" if held else "the kernel or the container's limit ended it"
    if limit is not None:
        detail += f"; {_limit_words(limit)}"
    cited = [root] if limit is None else [root, limit]
    return [*neighbour, Cause(cause="host_limit", bytes=held, detail=detail, cites=cite(cited))]


def _neighbour(row: EvidenceRow) -> Cause:
    detail = f"{row['name']} (pid {row['pid']}) held {size(row['rss_bytes'])}, more than the process killed"
    return Cause(cause="host_neighbour", bytes=row["rss_bytes"], detail=detail, cites=cite([row]))


def full(case: Case) -> list[EvidenceRow]:
    """Reports that the host's memory was full before a silent end, the fullest first."""
    rows = case.ask("host_memory")
    totals = [row for row in rows if row["total_bytes"] and row["free_bytes"] is not None]
    return sorted(
        (row for row in totals if 1 - row["free_bytes"] / row["total_bytes"] >= FULL_SHARE),
        key=lambda row: (row["free_bytes"] / row["total_bytes"], row["seq"]),
    )


def pressure(case: Case) -> tuple[list[Cause], list[Evidence]]:
    """That the host's memory was full, as cause and evidence of an end that nothing else explains."""
    rows = full(case)
    if not rows:
        return [], []
    row = rows[0]
    used = row["total_bytes"] - row["free_bytes"]
    detail = f"{size(used)} of {size(row['total_bytes'])} of the host's memory were in use"
    fell = next((later["fell_bytes"] for later in rows if (later["fell_bytes"] or 0) > used // 10), None)
    if fell:
        detail += f"; then {size(fell)} came free at once, as when a process ends"
    return (
        [Cause(cause="host_pressure", bytes=used, detail=detail, cites=cite([row]))],
        [statement(detail, "host", 0.5, [row])],
    )


def unsure(case: Case) -> list[Evidence]:
    """Why a kill for memory may not have been the engine's: it worked on, or nothing ties the victim to an engine.

    The kernel's short name does not decide it: a script may be called anything.
    """
    root = case.root
    if root["name"] != "oom_kill" or root.get("home") is not None or root["victim_pid"] in _pids(case):
        return []
    if root.get("victim_is_engine") is False:
        says = f"whether {root['victim']} is an engine's process is not told here"
        return [statement(says, "undetermined", 0.4, [root])]
    after = case.ask("outcome")
    worked = [row for row in after if row["went_on"] and row["what"] in ("throughput", "batch")]
    if worked and all(row["went_on"] for row in after):
        says = "yet the worker went on below that line: the victim may have been another"
        return [statement(says, "not_oom", 0.4, worked[:1])]
    return []


def of_another(case: Case) -> str:
    """What is known of the kill of a process that is none of the engine's."""
    root, limit = case.root, limit_told(case)
    if root["api"] == "supervisor":
        return f"the container {root['victim']} was killed for its own memory; it is none of the engine's"
    says = f"the kernel killed {root['victim']}, which is none of the engine's processes"
    if root["api"] != "kernel_cgroup":
        return says
    return f"{says}: its own cgroup was full" + (f" ({size(limit['cgroup_limit_bytes'])})" if limit is not None else "")


def evicted(root: EvidenceRow) -> str:
    """Of what the node ran out, where the kubelet ended the pod for something else than memory."""
    resource = (root["message"] or "").partition(": ")[0]
    return f"the kubelet evicted the pod for want of {resource}, not of memory"


def same_kill(root: EvidenceRow, member: EvidenceRow) -> bool:
    """Whether a line tells of the root's kill once more: of whom was chosen, who was killed, who was reaped."""
    pids = {row["victim_pid"] for row in (root, member) if row.get("victim_pid") is not None}
    return {root["name"], member["name"]} <= _KILLS and len(pids) < 2 and _teller(root) == _teller(member)


def _teller(row: EvidenceRow) -> str:
    """Who tells of a kill; not every line of the kernel's report says that a cgroup was full."""
    return "kernel" if row["api"] == "kernel_cgroup" else str(row["api"])


def _pids(case: Case) -> set[int]:
    return {row["pid"] for row in case.ask("siblings")}


def limit_told(case: Case) -> EvidenceRow | None:
    """The limit of the cgroup, or else the host's memory, as last told before the failure, or else after it."""
    rows = case.ask("host_memory")
    limits = [row for row in rows if row["cgroup_limit_bytes"] is not None]
    totals = [row for row in rows if row["total_bytes"] is not None]
    whole_host = any(row.get("api") == "kernel" for row in case.members if row["name"] == "oom_kill")
    told = totals if whole_host and totals else limits
    before = [row for row in told if row["seq"] < case.root["seq"]]
    return next(reversed(before), None) or next(iter(told), None)


def _limit_words(row: EvidenceRow) -> str:
    if row["cgroup_limit_bytes"] is not None:
        return f"its container may use {size(row['cgroup_limit_bytes'])}"
    return f"the host has {size(row['total_bytes'])}"


def largest_holder(case: Case) -> EvidenceRow | None:
    """Who held more than all that was killed, if anybody did."""
    victims = {row["victim_pid"] for row in case.members if row.get("victim_pid") is not None}
    rows = case.ask("host_processes")
    if not victims or not rows or rows[0]["pid"] in victims:
        return None
    told = case.figures["own_process_bytes"]
    killed = max((row["rss_bytes"] for row in rows if row["pid"] in victims), default=told)
    return rows[0] if killed is not None and rows[0]["rss_bytes"] > killed else None
