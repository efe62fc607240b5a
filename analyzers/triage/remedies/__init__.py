"""What to do: now, then for good; each a concrete setting of that engine with its arithmetic."""

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies import general, sglang, vllm
from oomctl.schemas.verdict import Incident, Remedy


def remedies(case: Case, incident: Incident) -> list[Remedy]:
    """Remedies of an incident, "now" before "change", the most effective first within each."""
    found = list(general.now(case, incident))
    if incident.engine == "vllm":
        found += vllm.change(case, incident)
    elif incident.engine == "sglang":
        found += sglang.change(case, incident)
    found += general.change(case, incident)
    return sorted(found, key=lambda remedy: remedy.when != "now")
