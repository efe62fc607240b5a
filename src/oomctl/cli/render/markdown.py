"""A verdict as a Markdown page, to paste into a postmortem."""

from oomctl.cli.render.memory import allocator_line, cohort_line, memory_lines
from oomctl.cli.render.page import omitted_line, read_line
from oomctl.cli.render.sections import cascade_line, gain_line
from oomctl.cli.render.text import code_md, escape_md, fence_md
from oomctl.cli.render.words import amount, circumstances, headline, place
from oomctl.schemas.verdict import Alternative, Evidence, Incident, Remedy, Triage

WIDTH = 120
"""Of the memory tree's lines."""


def triage_md(triage: Triage) -> str:
    """All incidents in full, then what was read."""
    if not triage.incidents:
        lines = ["# No memory incident found", ""]
    else:
        lines = []
        for incident in triage.incidents:
            lines += _incident(incident)
    if triage.omitted:
        lines += [f"{omitted_line(triage)}.", ""]
    lines += ["## Read", "", *(f"- {escape_md(read_line(entry))}" for entry in triage.inputs)]
    return "\n".join(lines) + "\n"


def _incident(incident: Incident) -> list[str]:
    lines = [
        f"# {escape_md(headline(incident))}",
        "",
        f"**{escape_md(incident.summary)}**",
        "",
        f"- Confidence: {incident.confidence:.2f}",
        f"- Incident: {code_md(incident.id)}",
        f"- Where and when: {escape_md(' · '.join(circumstances(incident)))}",
        "",
    ]
    lines += _remedies("Do now", [remedy for remedy in incident.remedies if remedy.when == "now"])
    lines += _why(incident)
    lines += _bytes(incident)
    lines += _remedies("What to change", [remedy for remedy in incident.remedies if remedy.when == "change"])
    lines += _against(incident)
    lines += _not_known(incident)
    return lines


def _remedies(title: str, remedies: list[Remedy]) -> list[str]:
    items = []
    for number, remedy in enumerate(remedies, 1):
        setting = f" {code_md(remedy.setting)}" if remedy.setting else ""
        gain = gain_line(remedy)
        items.append(f"{number}. {escape_md(remedy.action)}{setting}" + (f" ({escape_md(gain)})" if gain else ""))
    return _section(title, items)


def _why(incident: Incident) -> list[str]:
    items = []
    for cause in incident.causes:
        detail = f": {cause.detail}" if cause.detail else ""
        items.append(escape_md(f"Cause: {cause.cause}{amount(cause)}{detail}"))
        items[-1] = f"- {items[-1]}"
    for evidence in incident.evidence:
        items += _statement(evidence)
    if incident.cascade is not None and incident.cascade.failures > 0:
        items.append(f"- {escape_md(cascade_line(incident.cascade))}")
    return _section("Why", items)


def _statement(evidence: Evidence) -> list[str]:
    lines = [f"- {escape_md(evidence.says)}"]
    if evidence.cites:
        quoted = [place(cite) + (f": {cite.text}" if cite.text else "") for cite in evidence.cites]
        lines += ["", *(f"  {line}" for line in fence_md(quoted)), ""]
    return lines


def _bytes(incident: Incident) -> list[str]:
    items: list[str] = []
    if incident.memory_at_oom is not None:
        items += fence_md(memory_lines(incident.memory_at_oom, WIDTH))
    for line in (
        allocator_line(incident.allocator_at_oom) if incident.allocator_at_oom else "",
        cohort_line(incident.cohort_at_oom) if incident.cohort_at_oom else "",
    ):
        if line:
            items += ["", escape_md(line)] if items else [escape_md(line)]
    return _section("Where the bytes were", items)


def _alternative(other: Alternative) -> str:
    return f"{code_md(other.oom_class)} ({other.code})" if other.oom_class is not None else escape_md(other.what)


def _against(incident: Incident) -> list[str]:
    items = [line for evidence in incident.against for line in _statement(evidence)]
    items += [
        f"- {_alternative(other)}, confidence {other.confidence:.2f}: {escape_md(other.why)}"
        for other in incident.alternatives
    ]
    return _section("Against, and alternatives", items)


def _not_known(incident: Incident) -> list[str]:
    return _section(
        "Not known",
        [
            f"- {escape_md(missing.what)} (would tell: {escape_md(missing.collector)})"
            + (f": {code_md(missing.command)}" if missing.command else "")
            for missing in incident.missing
        ],
    )


def _section(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    return [f"## {title}", "", *items, *([] if items[-1] == "" else [""])]
