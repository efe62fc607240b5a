"""Whether the worker went on."""

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow


def survived(case: Case) -> tuple[bool | None, list[EvidenceRow]]:
    """Whether the worker went on after the failure, and the row that shows it; None where the log ends there."""
    last = max(member["seq"] for member in case.members)
    deaths = case.ask("deaths")
    if case.root["what"] in ("killed", "refusal") or any(member["fatal"] for member in case.members):
        return False, deaths[:1]
    for row in case.ask("outcome"):
        if row["what"] in ("ready", "serving", "throughput", "batch") and row["went_on"]:
            return True, [row]
        if not row["went_on"]:
            return (True, []) if case.root["soft"] and row["seq"] > last else (False, [row])
        if case.root["soft"]:
            return True, [row]
    if case.root["soft"]:
        return True, [case.root]
    return (False, deaths[:1]) if deaths else (None, [])
