"""OOM006 recovery: on restart, wake-up, adapter swap, KV transfer or rolling update, old and new resources overlap."""

from oomctl.analyzers.triage.assess import Assessment, frame_words
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.foreign import Foreign, foreign, held_by_an_earlier_life
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Cause

_CAUSES = {
    "wake_up": ("wake_up_overlap", "what another process took while the worker slept is missing at wake-up"),
    "weights_update": ("weight_update_overlap", "old and new weights exist together while they are exchanged"),
    "adapter": ("adapter_load", "an adapter is loaded beside those that are resident"),
    "transfer": ("transfer_buffers", "buffers for a KV transfer are allocated beside the pool"),
}

LEFT_SHARE = 0.05
"""Of what a killed process held: another life that held less did not matter."""

_AGAIN = ("sleeping", "waking", "reloading")


def assess(case: Case) -> Assessment:
    """Evidence for and against old and new resources that overlap."""
    result = Assessment("recovery")
    frames = case.frames_of("recovery")
    if frames and case.frame_phase == "recovery":
        result.add(
            f"the allocation was made while recovering: {frame_words(frames)}", max(f["weight"] for f in frames), frames[:3]
        )
        name, detail = _CAUSES.get(frames[0]["part"], ("recovery_overlap", "old and new resources exist together"))
        result.causes.append(
            Cause(cause=name, bytes=case.figures["requested_bytes"], detail=detail, cites=cite(frames[:1]))
        )
    cumem = [row for row in case.members if "cumem" in (row.get("message") or "")]
    slept = [row for row in _phases(case) if row["phase"] in _AGAIN]
    if cumem and slept:
        result.add("the sleep-mode allocator failed, and the worker had been put to sleep", 0.6, [cumem[0], slept[0]])
    if not (frames and frames[0]["part"] == "adapter") and under_way(case):
        result.add("the worker was waking up or changing its model, and had not served since", 0.55, slept[:1])
        again = case.frames_of("load_time") if case.frame_phase == "load_time" else []
        result.add("weights were being loaded again", 0.4, again[:1])
        told = [row for row in slept if "recover" in (row["detail"] or "")]
        late = told or [row for row in case.ask("outcome") if row["what"] == "reloading"]
        if late:
            result.add("the engine says that the memory of the model before did not come back in time", 0.4, late[:1])
    if case.root["what"] == "oom" and case.root["resource"] == "host":
        _overlap_in_the_host(case, result)
    elif case.frame_phase in (None, "load_time", "warm_up", "serving"):
        _overlap(case, result, foreign(case))
    return result


def under_way(case: Case) -> list[EvidenceRow]:
    """The rows, latest first, that show the worker waking up or changing its model, where it has not served since."""
    again = [row for row in _phases(case) if row["phase"] in _AGAIN]
    if not again or case.root["what"] != "oom" or _served_since(case, again[0]):
        return []
    return again


def _phases(case: Case) -> list[EvidenceRow]:
    """Phases before the failure, the last first."""
    return [row for row in case.ask("phases") if row["seq"] < case.root["seq"]]


def _served_since(case: Case, row: EvidenceRow) -> bool:
    """Whether the worker was ready again, or worked, between a row and the failure."""
    ready = [later for later in _phases(case) if later["phase"] in ("ready", "serving")]
    reports = [later for later in case.ask("kv_usage") if later["running_requests"] or later["generation_tokens_per_s"]]
    batches = [later for later in case.ask("batch") if not later["dumped"]]
    return any(row["seq"] < later["seq"] < case.root["seq"] for later in (*ready, *reports, *batches))


def _overlap(case: Case, result: Assessment, others: Foreign) -> None:
    """Memory of an earlier life, or of the instance that is being replaced, is still held."""
    held = held_by_an_earlier_life(case)
    if not held:
        return
    amount = others.bytes
    if others.earlier:
        pids = ", ".join(str(row["pid"]) for row in others.earlier[:3])
        result.add(
            f"process {pids} is an earlier incarnation of this worker and still holds {size(amount)}", 0.85, held[:3]
        )
    if others.restarts:
        result.add("an earlier life of the worker had just ended, or is being restarted", 0.65, others.restarts[:3])
    if others.left_over:
        result.add("the supervisor found a process of the life before still there", 0.75, others.left_over[:1])
    if others.at_start:
        result.add(
            f"{size(amount)} of the device were taken before this worker had loaded anything", 0.45, others.at_start[:2]
        )
    detail = "memory of a life that has ended is still held"
    result.causes.insert(0, Cause(cause="earlier_incarnation", bytes=amount, detail=detail, cites=cite(held[:1])))


def _overlap_in_the_host(case: Case, result: Assessment) -> None:
    """Processes of another life held memory of the host, or of the cgroup, in which this one was killed."""
    others = case.ask("host_lives")
    held = sum(row["rss_bytes"] or 0 for row in others)
    own = case.figures["own_process_bytes"]
    if not others or (own is not None and held < LEFT_SHARE * own):
        return
    lives = "another life" if len({row["life"] for row in others}) == 1 else "other lives"
    pids = ", ".join(str(row["pid"]) for row in others[:3])
    result.add(f"{lives} of this worker (pid {pids}) held {size(held)} of the same memory", 0.85, others[:3])
    detail = f"{lives} of this worker still held {size(held)} when the kernel killed this one"
    result.causes.insert(0, Cause(cause="earlier_incarnation", bytes=held, detail=detail, cites=cite(others[:3])))
