"""One incident as HTML: what to do, why, where the bytes were, what speaks against it, what is not known."""

from collections.abc import Iterable, Iterator

from oomctl.cli.render.heap_svg import text
from oomctl.cli.render.memory import allocator_line, cohort_line, figure, note, walk
from oomctl.cli.render.page import omitted_line, read_line
from oomctl.cli.render.sections import cascade_line, gain_line
from oomctl.cli.render.words import alternative_name, amount, circumstances, headline, place
from oomctl.report.explained import link
from oomctl.schemas.verdict import Citation, Evidence, Incident, MemoryNode, Remedy, Triage


def incident_html(incident: Incident) -> str:
    """The whole of one incident."""
    parts = [
        f'<h1 class="{incident.verdict or "undetermined"}">{text(headline(incident))}</h1>',
        f'<p class="summary">{text(incident.summary)}</p>',
        f"<p>Confidence {incident.confidence:.2f} "
        f'<meter min="0" max="1" value="{incident.confidence:.2f}">{incident.confidence:.0%}</meter></p>',
        f"<p><small>{text(' · '.join(circumstances(incident)))} · incident {text(incident.id)}</small></p>",
        _remedies("Do now", [remedy for remedy in incident.remedies if remedy.when == "now"]),
        _why(incident),
        _bytes(incident),
        _remedies("What to change", [remedy for remedy in incident.remedies if remedy.when == "change"]),
        _against(incident),
        _not_known(incident),
    ]
    if incident.code:
        parts.append(f"<p>More about this class: {link(incident.code, text(f'{incident.code} {incident.oom_class}'))}</p>")
    return "\n".join(filter(None, parts))


def read_html(triage: Triage) -> str:
    """What the verdict stands on."""
    items = [text(read_line(entry)) for entry in triage.inputs]
    items += [text(omitted_line(triage))] if triage.omitted else []
    return _list(items)


def _list(items: Iterable[str], kind: str = "ul") -> str:
    inner = "".join(f"<li>{item}</li>" for item in items)
    return f"<{kind}>{inner}</{kind}>" if inner else ""


def _part(title: str, inner: str) -> str:
    return f"<h2>{title}</h2>{inner}" if inner else ""


def _remedies(title: str, remedies: list[Remedy]) -> str:
    items = []
    for remedy in remedies:
        setting = f"<br><code>{text(remedy.setting)}</code>" if remedy.setting else ""
        gain = gain_line(remedy)
        items.append(text(remedy.action) + setting + (f"<br><small>{text(gain)}</small>" if gain else ""))
    return _part(title, _list(items, "ol"))


def _why(incident: Incident) -> str:
    items = []
    for cause in incident.causes:
        detail = f": {text(cause.detail)}" if cause.detail else ""
        name = link(cause.cause, f"<b>{text(cause.cause.replace('_', ' '))}</b>")
        items.append(f"{name}{amount(cause)}{detail}{_cites(cause.cites)}")
    items += [_statement(evidence) for evidence in incident.evidence]
    if incident.cascade is not None and incident.cascade.failures > 0:
        items.append(text(cascade_line(incident.cascade)))
    return _part("Why", _list(items))


def _statement(evidence: Evidence) -> str:
    return text(evidence.says) + _cites(evidence.cites)


def _cites(cites: Iterable[Citation]) -> str:
    quoted = [text(place(cite) + (f": {cite.text}" if cite.text else "")) for cite in cites]
    lines = "\n".join(quoted)
    return f"<pre>{lines}</pre>" if lines else ""


def _bytes(incident: Incident) -> str:
    parts = []
    if incident.memory_at_oom is not None:
        rows = "".join(_entries(incident.memory_at_oom))
        parts.append(f'<div class="wide"><table class="tree"><tbody>{rows}</tbody></table></div>')
    for line in (
        allocator_line(incident.allocator_at_oom) if incident.allocator_at_oom else "",
        cohort_line(incident.cohort_at_oom) if incident.cohort_at_oom else "",
    ):
        parts += [f"<p>{text(line)}</p>"] if line else []
    return _part("Where the bytes were", "".join(parts))


def _entries(root: MemoryNode) -> Iterator[str]:
    for depth, node in walk(root):
        name = text(node.name.replace("_", " "))
        yield (
            f'<tr><td style="padding-left:{depth + 0.5}em">{name}</td><td class="n">{figure(node)}</td>'
            f"<td>{text(node.quality or 'unknown')}</td><td>{text(note(node))}</td></tr>"
        )


def _against(incident: Incident) -> str:
    items = [_statement(evidence) for evidence in incident.against]
    items += [
        f"{link(other.code or '', text(alternative_name(other)))}, confidence {other.confidence:.2f}: {text(other.why)}"
        for other in incident.alternatives
    ]
    return _part("Against, and alternatives", _list(items))


def _not_known(incident: Incident) -> str:
    return _part(
        "Not known",
        _list(
            f"{text(missing.what)} (would tell: {text(missing.collector)})"
            + (f"<br><code>{text(missing.command)}</code>" if missing.command else "")
            for missing in incident.missing
        ),
    )
