"""What to do: now, then for good; each a concrete setting of that engine with its arithmetic."""

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies import budget, first, general, others, sglang, vllm
from oomctl.schemas.verdict import Incident, Remedy


def remedies(case: Case, incident: Incident) -> list[Remedy]:
    """Remedies of an incident, "now" before "change", the most effective first within each."""
    changes = list(general.cap(case, incident))
    if incident.resource != "host":
        if incident.engine == "vllm":
            changes += vllm.change(case, incident)
        elif incident.engine == "sglang":
            changes += sglang.change(case, incident)
        else:
            changes += others.change(case, incident)
    changes += general.change(case, incident)
    changes.sort(key=lambda remedy: budget.ALONE in remedy.action)
    return [*first.now(case, incident, changes), *changes]
