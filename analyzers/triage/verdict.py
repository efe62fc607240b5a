"""From a case to the incident that is reported."""

import hashlib
from datetime import UTC

from oomctl.analyzers.triage import cohort, death, host, ledger, outcome, predicted, ray, remedies, silent
from oomctl.analyzers.triage.assess import frame_words
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.causes import chain
from oomctl.analyzers.triage.decide import UNDECIDED, Decision, corroboration, decide
from oomctl.analyzers.triage.evidence import EvidenceRow, statement
from oomctl.analyzers.triage.foreign import foreign
from oomctl.analyzers.triage.heaps import INFERRED
from oomctl.analyzers.triage.missing import missing
from oomctl.analyzers.triage.sentences import keep_whole
from oomctl.analyzers.triage.summary import summary
from oomctl.schemas.verdict import CODES, Cascade, Evidence, Incident, Resource, Verdict

SILENT = {
    "sigkill": 0.5,
    "oom_killer": 0.55,
    "nccl_timeout": 0.3,
    "watchdog": 0.3,
    "probe_kill": 0.3,
    "engine_dead": 0.3,
    "exception": 0.3,
}
"""Confidence in what an end without the kernel's word is about: many things send a SIGKILL."""
VANISHED = 0.4
"""The same where nothing is known but that a process broke or is gone."""
FULL = 0.1
"""What it adds that the host's memory was full before."""
UNDETERMINED = 0.58
"""The most that is said of anything undetermined."""
NO_MEMORY = frozenset(
    {"illegal_access", "capture_failed", "kernel_resources", "thread_limit", "xid", "other_process_killed", "evicted"}
)
"""Faults that are no lack of this worker's memory."""
INFERENCE = 0.85
"""Where that something failed is itself inferred, from a snapshot's name and state."""
OF_BLOCKS = {
    "retraction": "running requests were sent back for want of KV blocks",
    "preemption": "running requests were sent back for want of KV blocks",
    "retraction_failed": "the KV pool did not hold what one request needs, and there was nobody left to send back",
    "swap_exhausted": "the host memory reserved for requests that are sent back was full",
    "no_free_blocks": "running requests needed KV blocks, and none was free",
}
"""What a scheduler says of a full pool, in words; any other error is a failed allocation."""
GATE = 0.9
NOT_MEMORY = 0.85
ALL_HEARD = 0.65
"""Where a rank waited in vain for others that were there: they may hang for want of host memory, which would be rare."""
HOST = 0.92


def incident(case: Case) -> Incident:
    """The verdict on one root failure, its citations still without their text."""
    root = case.root
    others = foreign(case)
    verdict, resource = _verdict(case), _resource(case)
    decision = decide(case) if _classifiable(root) else Decision(None, UNDECIDED, [])
    chosen = decision.chosen if verdict is not None else None
    causes = chain(case, chosen, others)
    went_on, shown = outcome.survived(case)
    evidence = _basis(case, verdict) + (chosen.evidence if chosen is not None else _asked_by(case))
    if shown:
        says = "the worker went on" if went_on else "the engine died of it"
        evidence.append(statement(says, "survived", 0.5, shown))
    evidence += _elsewhere(case)
    engine, version = case.engine
    engine = engine or ("transformers" if case.of_transformers else None)
    when = root.get("ts")
    result = Incident(
        id=_identity(root),
        verdict=verdict,
        oom_class=chosen.oom_class if chosen is not None else None,
        code=CODES[chosen.oom_class] if chosen is not None else None,
        resource=resource,
        confidence=round(_confidence(case, verdict, decision), 3),
        survived=went_on,
        summary="",
        phase=case.frame_phase if case.frame_phase not in (None, "serving") else case.stage or case.frame_phase,
        ts=when.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z") if when is not None else None,
        ts_quality=root.get("ts_quality"),
        engine=engine,
        engine_version=version,
        worker=case.about["worker"],
        incarnation=case.about["incarnation"],
        rank=root["rank"],
        rank_name=root["rank_name"],
        requested_bytes=case.figures["requested_bytes"],
        short_bytes=_short(case),
        causes=causes,
        evidence=evidence,
        against=chosen.against if chosen is not None else [],
        alternatives=[*silent.alternatives(case), *decision.alternatives],
        missing=missing(case, chosen is None, others),
        memory_at_oom=predicted.fill(case, ledger.memory_at_oom(case)),
        cohort_at_oom=cohort.cohort_at_oom(case),
        allocator_at_oom=cohort.allocator_at_oom(case),
        cascade=_cascade(case),
    )
    result.remedies = remedies.remedies(case, result)
    result.summary = summary(case, result)
    keep_whole(result)
    return result


def _verdict(case: Case) -> Verdict | None:
    root = case.root
    if root["what"] in ("oom", "pressure"):
        return None if silent.masked(case) else "oom"
    if root["what"] == "refusal":
        return "capacity_gate"
    if root["what"] == "fault" and root["name"] in NO_MEMORY:
        return "not_oom"
    return "not_oom" if death.told(root) or silent.all_heard(case) else None


def _resource(case: Case) -> Resource | None:
    if case.root["what"] in ("killed", "fault"):
        return "host" if silent.about_host(case) else None
    resource: Resource | None = case.root["resource"]
    return resource


def _classifiable(root: EvidenceRow) -> bool:
    """Whether a class means anything: for a gate only recovery does, for a bare kill none."""
    return root["what"] in ("oom", "pressure", "refusal")


def _confidence(case: Case, verdict: Verdict | None, decision: Decision) -> float:
    root = case.root
    if verdict is None:
        base = SILENT.get(root["name"], VANISHED) + (FULL if silent.of(case) is not None and host.full(case) else 0)
        return min(base, UNDETERMINED) * corroboration(case)
    if root["what"] == "death":
        return death.NOT_MEMORY
    if root["what"] == "fault":
        return (ALL_HEARD if silent.all_heard(case) else NOT_MEMORY) * corroboration(case)
    if root["what"] == "refusal":
        return GATE * corroboration(case) if decision.chosen is None else decision.confidence
    if root["resource"] == "host":
        return (UNDETERMINED if host.unsure(case) else HOST) * corroboration(case)
    return decision.confidence * (INFERENCE if root["name"] == INFERRED else 1)


def _basis(case: Case, verdict: Verdict | None) -> list[Evidence]:
    """The statement that something failed at all."""
    root = case.root
    if root["what"] == "refusal" and case.gate is not None:
        says = "the engine refused to go on; no allocation had failed"
        if case.gate["gate"] == "admission":
            says = "the engine refused a request; no allocation had failed"
        return [statement(says, "capacity_gate", 0.9, [case.gate])]
    silence = silent.of(case)
    if silence is not None:
        found = [statement(silence.says, "host" if silent.about_host(case) else "undetermined", 0.5, [root])]
        if heard := silent.all_heard(case):
            found.append(
                statement("the other processes wrote as it gave up: none of them is gone", "not_oom", 0.6, heard[:3])
            )
        return found + host.pressure(case)[1] + silent.others(case)
    if root["name"] == "other_process_killed":
        return [statement(host.of_another(case), "not_oom", 0.85, [root])]
    if silent.masked(case):
        says = "an assertion about the driver's library stands where an out-of-memory message may have been"
        return [statement(says, "undetermined", 0.5, [root])]
    if root["what"] == "death":
        says = "the engine died, and no failure of memory was seen before it"
        return [statement(says, verdict or "undetermined", 0.7, [root, *death.stated(root)])]
    if root["name"] == "evicted":
        return [statement(host.evicted(root), "not_oom", 0.85, [root])]
    if root["what"] == "fault":
        says = (
            "the failure is not a lack of memory"
            if verdict == "not_oom"
            else "the worker fell silent; nothing here says memory"
        )
        return [statement(says, verdict or "undetermined", 0.7, [root])]
    if root["what"] == "oom" and root["name"] == "oom_kill":
        monitored = ray.monitor(case)
        says = "the kernel or the container runtime killed the process for its memory"
        if monitored is not None:
            says = "Ray killed a worker because the node ran low on memory; no allocation had failed"
        return [statement(says, "host", 0.92, [root]), *host.unsure(case)]
    if root["what"] == "oom" and root["name"] in OF_BLOCKS:
        return [statement(OF_BLOCKS[root["name"]], root["resource"], 0.9, [root])]
    if root["name"] == INFERRED:
        return [statement(str(root["message"]), root["resource"], 0.6, [root])]
    if root["what"] == "oom":
        where = {"device": "device memory", "host": "host memory", "kv_blocks": "KV blocks"}.get(root["resource"], "memory")
        return [statement(f"an allocation of {where} failed", root["resource"], 0.9, [root])]
    return []


def _asked_by(case: Case) -> list[Evidence]:
    """The frame that asked for the memory, where no class says what it stands for."""
    stacks = [member for member in case.members if member["what"] == "oom" and member.get("stack_id") is not None]
    frames = case.ask_of("innermost", stacks[:1])
    if not frames or case.root["resource"] != "device":
        return []
    return [statement(f"it was asked for in {frame_words(frames)}", "device", 0.2, frames)]


def _short(case: Case) -> int | None:
    gate = case.gate
    if gate is not None and gate["needed_bytes"] is not None and gate["available_bytes"] is not None:
        return int(gate["needed_bytes"] - gate["available_bytes"])
    if gate is not None and gate["needed_bytes"] is None and (gate["available_bytes"] or 0) < 0:
        return -int(gate["available_bytes"])  # and what the smallest pool takes
    short: int | None = case.figures["short_bytes"]
    return short


def _identity(root: EvidenceRow) -> str:
    """Deterministic: the same log gives the same id on every machine, whatever the file is called."""
    place = "|".join(map(str, root.get("origin") or (root["line"], root["seq"])))
    text = f"{root.get('ts')}|{root['what']}|{root['name']}|{root['incarnation']}|{place}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _elsewhere(case: Case) -> list[Evidence]:
    """What other sources tell of the same failure: the first line of each."""
    first: dict[str, EvidenceRow] = {}
    for member in case.members:
        if member["stream"] != case.root["stream"]:
            first.setdefault(member["stream"], member)
    if not first:
        return []
    says = "another source tells of it too" if len(first) == 1 else f"{len(first)} other sources tell of it too"
    return [statement(says, "cascade", 0.3, list(first.values())[:8])]


def _led_to(member: EvidenceRow, root: EvidenceRow) -> bool:
    """Whether the engine went on after it, and failed later: it stands among the evidence."""
    return bool(member["soft"] and member["stream"] == root["stream"] and member["seq"] < root["seq"])


def _cascade(case: Case) -> Cascade | None:
    followed = [member for member in case.members if member is not case.root and not _led_to(member, case.root)]
    followed = [member for member in followed if not host.same_kill(case.root, member)]
    heap = case.root.get("heap")
    if heap is not None:  # the allocator's own entry of the same failure
        followed = [member for member in followed if (member["stream"], member["what"]) != (heap["stream"], "oom")]
    if not followed:
        return None
    ranks = sorted({member["rank_name"] for member in case.members if member["rank_name"]})
    lines = tuple(m["line"] for m in followed if m["line"] is not None and m["stream"] == case.root["stream"])
    return Cascade(failures=len(followed), ranks=tuple(ranks), lines=lines[:20])
