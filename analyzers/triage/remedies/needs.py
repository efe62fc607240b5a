"""What would have prevented a failure, whatever the engine: which memory must become smaller, or larger, in which order."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from oomctl.analyzers.triage.assess import PROMPT_LOGPROBS
from oomctl.analyzers.triage.batch import ran_at_once
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies.options import Direction, Engine
from oomctl.schemas.verdict import Incident, OomClass

POOL_GATES = ("kv_blocks", "kv_fits_request")
"""Refusals for want of KV pool."""
_AFTER_POOL = frozenset({"kv_pool_allocation", "graph_capture", "sampler_warm_up", "autotuning", "kernel_warm_up"})
"""Causes of a warm-up that need a KV pool, or are one."""


@dataclass(frozen=True)
class Need:
    """A component, or a part of one, that must become smaller or larger.

    Attributes:
        component: As in the event table, or host.
        direction: Which way.
        part: What of it; the component as a whole where None.
        why: Said of the first option in place of its own sentence, if that option is a share of the device.
        but: Said after the first option's sentence: what does not help, though people try it.
        only_set: Only options whose value the log shows.
        most: How many options at most.
    """

    component: str
    direction: Direction = "less"
    part: str | None = None
    why: str | None = None
    but: str | None = None
    only_set: bool = False
    most: int | None = None

    def meets(self, other: "Need") -> bool:
        """Whether it asks for the same of the same memory."""
        return (self.component, self.direction, self.part) == (other.component, other.direction, other.part)


_POSSIBLE: dict[str, tuple[OomClass, ...]] = {"serving": ("prefill_spike", "decode_growth", "fragmentation")}
"""Classes of a failed allocation of the device by the stage in which it failed, where no frame tells another."""


def whatever_the_class(case: Case, incident: Incident, engine: Engine) -> Iterator[Need]:
    """What an undecided incident needs whichever of the possible classes it is of."""
    possible = {item.oom_class for item in incident.alternatives if item.oom_class is not None}
    possible |= set(_POSSIBLE.get(case.stage or "", ()))
    if incident.verdict != "oom" or incident.resource != "device" or not possible:
        return
    each = [list(needs(case, msgspec.structs.replace(incident, oom_class=name), engine)) for name in sorted(possible)]
    for need in each[0]:
        if all(any(other.meets(need) for other in found) for found in each):
            yield replace(need, why="Leave more of the device outside the budget.")


def needs(case: Case, incident: Incident, engine: Engine) -> Iterator[Need]:
    """What an incident needs, the most effective first."""
    causes = {cause.cause for cause in incident.causes}
    if incident.resource == "host":
        yield Need("host", only_set=True)
        if case.root["name"] == "system_memory":  # the part of the model that the device does not hold
            yield Need("kv_pool")
    elif incident.verdict == "capacity_gate":
        yield from _gate(case, causes)
    elif "library_workspace" in causes:
        yield Need(
            "kv_pool", why="Leave more of the device outside the budget, for handles and workspaces of the libraries."
        )
    elif incident.oom_class == "warm_up":
        yield from _warm_up(case, causes, engine)
    elif incident.oom_class == "load_time":
        yield Need("weights", but=_no_help(engine, "before they are loaded"))
        yield Need("weights", part="layers")
        yield Need("weights", part="models")
    elif incident.oom_class == "prefill_spike":
        yield from _prefill(case, incident)
    elif incident.oom_class == "decode_growth":
        if incident.resource == "device" and engine.budget is not None:  # it grew beside the pool
            yield Need("kv_pool", why="Leave more of the device to what grows.")
        yield from _decode(case, causes)
    elif incident.oom_class == "fragmentation":
        yield Need("kv_pool", why="Leave the allocator more of the device to choose from.")
    elif incident.oom_class == "recovery":
        if "adapter_load" in causes:
            yield Need("adapter")
        if "transfer_buffers" in causes:
            yield Need("transfer", "more")
        yield Need("weights", part="models")
        yield Need("kv_pool", why="Leave room for old and new together.")


def _gate(case: Case, causes: set[str]) -> Iterator[Need]:
    """A larger pool is never the answer where somebody else holds the device."""
    gate = (case.gate or {}).get("gate")
    if gate == "warm_up_fits":
        yield Need("activation")
    if causes & {"foreign_process", "earlier_incarnation"} or not (gate in POOL_GATES or "over_committed_budget" in causes):
        return
    if gate == "kv_fits_request":
        yield Need("kv_pool", part="request")
    if gate != "start_memory":
        yield Need("kv_pool", "more")
        yield Need("weights", most=1)


def _warm_up(case: Case, causes: set[str], engine: Engine) -> Iterator[Need]:
    before_pool = engine.sizes_pool_last or _before_pool(case, causes)
    order = ["logits", "activation"] if "sampler_warm_up" in causes else ["activation", "logits"]
    if before_pool:
        if case.encoder:
            yield Need("activation", part="encoder", but="smaller chunks of text do not help the encoder")
            yield Need("activation", part="profiled_encoder")
        else:
            if _encoding_next(case):
                yield Need("activation", part="encoder")
            yield from map(Need, order)
        yield Need("weights", but=_no_help(engine, "before the KV pool exists"), most=1)
    else:
        yield Need("kv_pool", why="The KV pool took what the warm-up needed: give it a smaller share.")
        of_graphs = "sampler_warm_up" not in causes and ("graph_capture" in causes or _capturing(case))
        yield Need("graph_pool" if of_graphs else order[0])
    yield Need("weights", part="layers")


def _prefill(case: Case, incident: Incident) -> Iterator[Need]:
    if case.encoder:
        yield Need("activation", part="encoder")
    elif case.called(PROMPT_LOGPROBS):
        yield Need("logits", part="prompt")
    elif case.frames_of("serving", "logits"):
        yield Need("logits", most=1)
    if not case.encoder:
        yield Need("activation")
    if incident.resource == "kv_blocks":  # a smaller pool would make that worse
        yield Need("kv_pool", part="admission")
        yield Need("kv_pool", part="use")
    else:
        yield Need("kv_pool", why="Leave more of the device to activations.")


def _decode(case: Case, causes: set[str]) -> Iterator[Need]:
    """Where one request filled the pool alone, nothing is gained by admitting others later."""
    if "swap_space_exhausted" in causes:
        yield Need("kv_pool", "more", part="swap")
    grew = "kv_growth" in causes  # without a pool, in which the others could wait
    yield Need("kv_pool", part="request" if grew or alone(case) else "admission")
    yield Need("kv_pool", part="use")


def _before_pool(case: Case, causes: set[str]) -> bool:
    """Whether there was no KV pool yet: the budget's size has no effect then.

    The frames of the profiling run say so, unless they go on to what comes after it. Without any frame the order of what
    was printed does: the weights were loaded, and nothing of a pool was told.
    """
    if case.has_pool or any(row["phase"] == "kv_allocated" for row in case.ask("phases")):
        return False
    if case.frames_of("warm_up"):
        return bool(case.frames_of("warm_up", "profile")) and not case.frames_of("warm_up", "capture", "kv_pool")
    return case.stage == "warm_up" and not _capturing(case) and not causes & _AFTER_POOL


def _encoding_next(case: Case) -> bool:
    """Whether the last that was told is that the profiling run begins, with images, where no frame says how far it came."""
    return not case.frames and bool(case.stage_rows) and (case.stage_rows[0]["detail"] or "").startswith("Encoder cache")


def _capturing(case: Case) -> bool:
    return bool(case.stage_rows) and case.stage_rows[0]["phase"] == "capturing"


def _no_help(engine: Engine, when: str) -> str | None:
    """That the engine's budget does not help yet."""
    return None if engine.budget is None else f"{engine.budget} does not help {when}"


def alone(case: Case) -> bool:
    """Whether one request filled the pool alone: as reported, as the engine says, or because no more are allowed."""
    said = any(member["name"] == "retraction_failed" for member in case.members)
    return said or ran_at_once(case) == 1 or case.number("max_num_seqs", "max_running_requests") == 1
