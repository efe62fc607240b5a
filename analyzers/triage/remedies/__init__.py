"""What to do: now, then for good; each a concrete setting of that engine with its arithmetic.

A class and its causes say which memory must become smaller (`needs`); the engine's file of options says which of them do
that in its version (`choices`); what the log shows of their values gives the new value and what it frees (`settings`).
"""

from collections.abc import Iterator

import msgspec

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies import budget, first, general, procedures
from oomctl.analyzers.triage.remedies.engine_files import load
from oomctl.analyzers.triage.remedies.needs import needs, whatever_the_class
from oomctl.analyzers.triage.remedies.options import Engine
from oomctl.analyzers.triage.remedies.settings import propose
from oomctl.schemas.verdict import Incident, Remedy


def remedies(case: Case, incident: Incident) -> list[Remedy]:
    """Remedies of an incident, "now" before "change", the most effective first within each."""
    engine = load(incident.engine or "")
    changes = list(general.cap(case, incident))
    of_engine = list(_of_engine(case, incident, engine)) if engine is not None else []
    whatever = list(general.change(case, incident))
    general_first = incident.resource == "host" or incident.oom_class == "fragmentation"
    changes += whatever + of_engine if general_first else of_engine + whatever
    changes = [_of_triton(remedy) for remedy in changes] if case.root["name"] == "model_instance" else changes
    changes = [remedy for remedy in changes if _helps(remedy)]
    changes.sort(key=lambda remedy: budget.ALONE in remedy.action)
    return [*first.now(case, incident, changes), *changes]


_TRITON = {
    "kv_cache_config.free_gpu_memory_fraction": "config.pbtxt: kv_cache_free_gpu_mem_fraction",
    "kv_cache_config.max_tokens": "config.pbtxt: max_tokens_in_paged_kv_cache",
    "max_num_tokens": "trtllm-build --max_num_tokens",
    "max_batch_size": "trtllm-build --max_batch_size",
    "max_seq_len": "trtllm-build --max_seq_len",
}
"""Where TensorRT-LLM's options are set for an engine that was built and is served by Triton's C++ backend."""


def _of_triton(remedy: Remedy) -> Remedy:
    name, _, value = (remedy.setting or "").partition(" ")
    return msgspec.structs.replace(remedy, setting=f"{_TRITON[name]} {value}") if name in _TRITON else remedy


def _helps(remedy: Remedy) -> bool:
    """Whether it frees something, or may: one that frees nothing, or names neither a setting nor an amount, is none."""
    return remedy.frees_bytes != 0 and (remedy.setting is not None or remedy.frees_bytes is not None)


def _of_engine(case: Case, incident: Incident, engine: Engine) -> Iterator[Remedy]:
    """What this engine's options can do; each setting once."""
    if case.root["what"] == "refusal" and (case.gate or {}).get("gate") == "start_memory":
        if engine.budget is not None:
            yield from budget.fit(case, engine.budget)
        return
    seen: set[str | None] = set()
    for remedy in (*procedures.change(incident, engine), *_proposals(case, incident, engine)):
        if remedy.setting is None or remedy.setting not in seen:
            seen.add(remedy.setting)
            yield remedy


def _proposals(case: Case, incident: Incident, engine: Engine) -> Iterator[Remedy]:
    for need in needs(case, incident, engine):
        yield from propose(case, incident, engine, need)
    if incident.oom_class is None:
        for need in whatever_the_class(case, incident, engine):
            for remedy in propose(case, incident, engine, need):
                action = f"Whatever the class: {remedy.action[:1].lower()}{remedy.action[1:]}"
                yield msgspec.structs.replace(remedy, action=action)
