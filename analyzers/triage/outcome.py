"""Whether the worker went on: of a server with runners of its own the server, which starts another one."""

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow


def survived(case: Case) -> tuple[bool | None, list[EvidenceRow]]:
    """Whether the worker went on after the failure, and the row that shows it; None where the log ends there."""
    told = [member["seq"] for member in case.members if member["stream"] == case.about["stream"]]
    last = max(told, default=case.about["seq"])
    answered = [row for row in case.ask("outcome") if row["what"] == "answered"]
    if answered and case.root["what"] in ("oom", "refusal", "killed"):
        return True, answered[:1]
    deaths = case.ask("deaths")
    if (
        case.root["what"] in ("killed", "death")
        or _refused_to_start(case)
        or any(member["fatal"] for member in case.members)
    ):
        return False, deaths[:1]
    signs = case.ask("outcome")
    for row in signs:
        if _late(row, signs):
            continue
        if row["what"] == "answer" and not _of_one_process(case):
            continue
        if row["what"] in ("ready", "serving", "throughput", "batch", "answer") and row["went_on"]:
            return True, [row]
        if not row["went_on"]:
            return (True, []) if case.root["soft"] and row["seq"] > last else (False, [row])
        if case.root["soft"]:
            return True, [row]
    if case.root["soft"]:
        return True, [case.root]
    return (False, deaths[:1]) if deaths else (None, [])


def _refused_to_start(case: Case) -> bool:
    """Whether the root is a gate of the start; one at the admission of a request ends only that."""
    return bool(case.root["what"] == "refusal" and case.root["name"] != "admission")


def _of_one_process(case: Case) -> bool:
    """Whether who answers is who failed: an engine's server may answer while the process that computes is dying."""
    return case.engine[0] is None


def _late(row: EvidenceRow, signs: list[EvidenceRow]) -> bool:
    """Whether a usage report, or an answer, is the only sign of life before the end: either may tell of what was before."""
    if row["what"] not in ("throughput", "answer"):
        return False
    until_end = []
    for sign in signs:
        until_end.append(sign)
        if not sign["went_on"]:
            break
    return not until_end[-1]["went_on"] and sum(sign["went_on"] for sign in until_end) == 1
