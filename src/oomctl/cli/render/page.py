"""The terminal page of `oomctl triage`: the verdict and what to do first, the proof after it."""

from oomctl.cli.render.sections import incident_lines
from oomctl.cli.render.sheet import Sheet
from oomctl.cli.render.words import headline, plural
from oomctl.schemas.verdict import Input, Triage

FULL = 3
"""Up to so many incidents are shown in full; of more, the first in full and the others in one line each."""


def triage_page(triage: Triage, width: int = 100, colour: bool = False, blocks: bool = True) -> str:
    """The whole page.

    Args:
        triage: The verdict.
        width: Columns of the terminal.
        colour: Whether to use ANSI colours.
        blocks: Whether the terminal's encoding has block characters.
    """
    sheet = Sheet(width, colour)
    incidents = triage.incidents
    if not incidents:
        sheet.add("no memory incident found", "bold green")
        for entry in triage.inputs:
            sheet.wrapped(f"read {read_line(entry)}", indent=2, style="dim")
        return sheet.text()
    shown = incidents if len(incidents) <= FULL else incidents[:1]
    for number, incident in enumerate(shown, 1):
        if len(incidents) > 1:
            sheet.gap()
            sheet.add(f"INCIDENT {number} of {len(incidents)}", "dim")
        incident_lines(sheet, incident, blocks)
    if len(shown) < len(incidents):
        sheet.heading(f"{len(incidents) - len(shown)} MORE INCIDENTS")
        for number, incident in enumerate(incidents[1:], 2):
            sheet.wrapped(f"{number}. {headline(incident)}: {incident.summary}", indent=2, hang=3)
        sheet.wrapped("--format md or --json shows all of them in full", indent=2, style="dim")
    if triage.omitted:
        sheet.gap()
        sheet.wrapped(omitted_line(triage))
    sheet.gap()
    for entry in triage.inputs[:FULL]:
        sheet.wrapped(f"read {read_line(entry)}", style="dim")
    if len(triage.inputs) > FULL:
        sheet.add(f"read {len(triage.inputs) - FULL} more inputs", "dim")
    return sheet.text()


def omitted_line(triage: Triage) -> str:
    """What was counted only."""
    return f"{plural(triage.omitted, 'more failure')}, older than these, counted and not looked into"


def read_line(entry: Input) -> str:
    """What was read of one input."""
    parts = [f"{len(entry.parts)} files, oldest first: {', '.join(entry.parts)}"] if entry.parts else []
    parts += [plural(entry.lines, "line")] if entry.lines is not None else []
    parts.append(plural(entry.rows, "event"))
    if entry.engines:
        parts.append("written by " + ", ".join(entry.engines))
    elif entry.format == "log":
        parts.append("no known engine's output in it")
    return f"{entry.path}: {', '.join(parts)}"
