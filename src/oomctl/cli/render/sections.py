"""The sections of one incident on the terminal page, in the order in which a tired reader needs them."""

from oomctl.cli.render.memory import allocator_line, cohort_line, memory_lines
from oomctl.cli.render.sheet import Sheet
from oomctl.cli.render.words import alternative_name, amount, circumstances, headline, human, place, plural
from oomctl.schemas.verdict import Cascade, Citation, Evidence, Incident, Remedy

CITES = 3
"""So many cited lines are shown per statement; --json has them all."""

VERDICT_STYLES = {"oom": "bold red", "capacity_gate": "bold yellow", "not_oom": "bold green", None: "bold yellow"}


def incident_lines(sheet: Sheet, incident: Incident, blocks: bool) -> None:
    """The whole of one incident."""
    sheet.wrapped(f"{headline(incident)}, confidence {incident.confidence:.2f}", style=VERDICT_STYLES[incident.verdict])
    sheet.wrapped(incident.summary, style="bold")
    sheet.wrapped(" · ".join(circumstances(incident)), style="dim")
    _do_now(sheet, incident)
    _why(sheet, incident)
    _bytes(sheet, incident, blocks)
    _remedies(sheet, "WHAT TO CHANGE", [remedy for remedy in incident.remedies if remedy.when == "change"])
    _against(sheet, incident)
    _not_known(sheet, incident)
    if incident.code:
        sheet.gap()
        sheet.wrapped(f"More about this class: oomctl explain {incident.code}", style="dim")


def _do_now(sheet: Sheet, incident: Incident) -> None:
    now = [remedy for remedy in incident.remedies if remedy.when == "now"]
    _remedies(sheet, "DO NOW", now)
    commands = [missing.command for missing in incident.missing if missing.command]
    if not now and incident.verdict is None and commands:
        sheet.heading("DO NOW")
        sheet.wrapped("Run this, which would tell what it was:", indent=2)
        sheet.add(commands[0], "green", indent=4)


def _remedies(sheet: Sheet, title: str, remedies: list[Remedy]) -> None:
    if not remedies:
        return
    sheet.heading(title)
    for number, remedy in enumerate(remedies, 1):
        sheet.wrapped(f"{number}. {remedy.action}", indent=2, hang=3)
        if remedy.setting:
            sheet.wrapped(remedy.setting, indent=5, hang=2, style="green")
        if gain := gain_line(remedy):
            sheet.wrapped(gain, indent=5, style="dim")


def gain_line(remedy: Remedy) -> str:
    """What a remedy frees against what was short, and how that was reckoned."""
    parts = []
    if remedy.frees_bytes is not None:
        about = "about " if remedy.quality in ("estimated", "predicted", "simulated") else ""
        parts.append(f"frees {about}{human(remedy.frees_bytes)}")
    if remedy.short_bytes is not None:
        parts.append(f"{human(remedy.short_bytes)} were short")
    return ": ".join(part for part in ("; ".join(parts), remedy.arithmetic) if part)


def _why(sheet: Sheet, incident: Incident) -> None:
    if not incident.causes and not incident.evidence:
        return
    sheet.heading("WHY")
    for number, cause in enumerate(incident.causes, 1):
        detail = f": {cause.detail}" if cause.detail else ""
        lead = "Cause" if len(incident.causes) == 1 else f"Cause {number}"
        sheet.wrapped(f"{lead}: {cause.cause.replace('_', ' ')}{amount(cause)}{detail}", indent=2, hang=2)
        _cites(sheet, cause.cites)
    for evidence in incident.evidence:
        _statement(sheet, evidence)
    cascade = incident.cascade
    if cascade is not None and cascade.failures > 0:
        sheet.wrapped(f"- {cascade_line(cascade)}", 2, 2)


def cascade_line(cascade: Cascade) -> str:
    """What followed. The ranks are those of the root failure too, so they are where it was seen, not who followed."""
    ranks = f"; seen on {', '.join(cascade.ranks)}" if cascade.ranks else ""
    noun = "line" if len(cascade.lines) == 1 else "lines"
    lines = f" ({noun} {', '.join(map(str, cascade.lines))})" if cascade.lines else ""
    return f"{plural(cascade.failures, 'later failure')} followed from it{lines}{ranks}"


def _statement(sheet: Sheet, evidence: Evidence) -> None:
    sheet.wrapped(f"- {evidence.says}", indent=2, hang=2)
    _cites(sheet, evidence.cites)


def _cites(sheet: Sheet, cites: tuple[Citation, ...]) -> None:
    for cite in cites[:CITES]:
        sheet.quote(place(cite), cite.text, indent=4)
    if len(cites) > CITES:
        sheet.add(f"and {len(cites) - CITES} more (--json shows them)", "dim", indent=4)


def _bytes(sheet: Sheet, incident: Incident, blocks: bool) -> None:
    extra = [
        allocator_line(incident.allocator_at_oom) if incident.allocator_at_oom else "",
        cohort_line(incident.cohort_at_oom) if incident.cohort_at_oom else "",
    ]
    if incident.memory_at_oom is None and not any(extra):
        return
    sheet.heading("WHERE THE BYTES WERE")
    if incident.memory_at_oom is not None:
        for line in memory_lines(incident.memory_at_oom, sheet.width - 2, blocks):
            sheet.add(line, indent=2)
    for line in filter(None, extra):
        sheet.wrapped(line, indent=2, hang=2)


def _against(sheet: Sheet, incident: Incident) -> None:
    if not incident.against and not incident.alternatives:
        return
    sheet.heading("AGAINST / ALTERNATIVES")
    for evidence in incident.against:
        _statement(sheet, evidence)
    for other in incident.alternatives:
        sheet.wrapped(f"- {alternative_name(other)}, confidence {other.confidence:.2f}: {other.why}", indent=2, hang=2)


def _not_known(sheet: Sheet, incident: Incident) -> None:
    if not incident.missing:
        return
    sheet.heading("NOT KNOWN")
    for missing in incident.missing:
        sheet.wrapped(f"- {missing.what} (would tell: {missing.collector})", indent=2, hang=2)
        if missing.command:
            sheet.wrapped(missing.command, indent=4, hang=2, style="green")
