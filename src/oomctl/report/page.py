"""The page: one HTML file with everything in it, which nothing is loaded into from anywhere."""

import base64
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from oomctl.cli.render.heap_page import KEY, text_block
from oomctl.cli.render.heap_svg import text
from oomctl.cli.render.rows import plain
from oomctl.report.answers import Answer
from oomctl.report.explained import SECTION as EXPLAINED
from oomctl.report.explained import folds
from oomctl.report.html import POLICY, asset, head, table
from oomctl.report.panels import SECTIONS, Section
from oomctl.report.verdict import incident_html, read_html

if TYPE_CHECKING:
    from oomctl.report.build import Report
    from oomctl.report.charts import Spec

ROWS = 200
"""Of a table on the page; the query gives them all."""
CHART_WORDS = {
    "memory": "The parts of the device's memory at the first incident, each beginning where the one above ends.",
    "time": "Figures over time on one axis, in UTC, or as printed where a log names no zone; a dashed line is a failure. "
    "Drag moves, the wheel zooms, double-click undoes.",
    "ranks": "Figures that several ranks tell, rank by rank.",
    "cohorts": "Tokens reserved beside the quantiles of tokens generated, by cohort.",
    "heap": "The allocator's pools: in use, in holes, and wholly free.",
}


def page(report: "Report", specs: "dict[str, Spec]", code: str) -> str:
    """The whole file.

    Args:
        report: What it tells.
        specs: Its charts, by section.
        code: The chart code; not used where there is no chart.
    """
    nonce = base64.b64encode(secrets.token_bytes(16)).decode()
    shown = [section for section in SECTIONS if _has(section, report, specs)]
    explained, lacking = folds(report.triage), _lacking(report)
    last = {
        EXPLAINED: ("Explained", explained),
        "lacking": ("Not recorded", lacking),
        "read": ("Read", read_html(report.triage)),
    }
    titles = {section.key: section.title for section in shown} | {
        key: title for key, (title, inner) in last.items() if inner
    }
    links = "".join(f'<a href="#{key}">{text(title)}</a>' for key, title in titles.items())
    # Vega compiles a chart's expressions; they are ours, and nothing of an input is among them.
    scripts = f"img-src data:; script-src 'nonce-{nonce}' 'unsafe-eval'"
    policy = f"{POLICY}; {scripts}; base-uri 'none'; form-action 'none'"
    parts = [
        *head(_title(report), policy),
        f'<nav><a href="#verdict">Verdict</a>{links}</nav><main>',
        *_verdicts(report),
        *(_section(section, report, specs) for section in shown),
        *(f'<section id="{key}"><h2>{title}</h2>{inner}</section>' for key, (title, inner) in last.items() if inner),
        "</main>",
        *(f'<script type="application/json" data-chart="{key}">{_json(spec)}</script>' for key, spec in specs.items()),
    ]
    if specs:
        parts += [f'<script nonce="{nonce}">{code}</script>', f'<script nonce="{nonce}">{asset("page.js")}</script>']
    return "\n".join(parts) + "\n</body></html>\n"


def _title(report: "Report") -> str:
    incidents = report.triage.incidents
    return f"oomctl report: {incidents[0].summary if incidents else 'no memory incident found'}"


def _verdicts(report: "Report") -> Iterator[str]:
    incidents = report.triage.incidents
    if not incidents:
        yield '<section id="verdict"><h1>No memory incident found</h1></section>'
        return
    yield f'<section id="verdict">{incident_html(incidents[0])}</section>'
    if len(incidents) > 1:
        more = "".join(
            f"<details><summary>{text(incident.summary)}</summary>{incident_html(incident)}</details>"
            for incident in incidents[1:]
        )
        yield f"<section><h2>{len(incidents) - 1} more incidents</h2>{more}</section>"


def _has(section: Section, report: "Report", specs: "dict[str, Spec]") -> bool:
    return section.key in specs or any(report.answers[name].rows for name in section.queries)


def _section(section: Section, report: "Report", specs: "dict[str, Spec]") -> str:
    parts = [f'<section id="{section.key}"><h2>{text(section.title)}</h2>']
    if section.key in specs:
        words = text(CHART_WORDS[section.key])
        parts.append(
            f'<figure><figcaption>{words}</figcaption><div class="chart" id="chart-{section.key}" role="img" '
            f'aria-label="{words} The tables below hold the figures."></div></figure>'
        )
    if section.key == "heap" and report.maps:
        parts += [f'<p class="key">{KEY}</p>', *report.maps]
    answers = [report.answers[name] for name in section.queries]
    parts += [_table(answer) for answer in answers if answer.rows]
    return "\n".join([*parts, "</section>"])


def _lacking(report: "Report") -> str:
    """What could not be answered, and who would have told."""
    missing = [answer for answer in report.answers.values() if answer.missing]
    items = "".join(f"<li>{text(answer.query.title)}: <em>{text(answer.missing or '')}</em></li>" for answer in missing)
    return f'<ul class="missing">{items}</ul>' if items else ""


def _table(answer: Answer) -> str:
    """Folded: the rows, and the SQL that gave them."""
    query = answer.query
    heads = "".join(f'<th title="{text(meaning)}">{text(column)}</th>' for column, meaning in query.columns)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in answer.rows[:ROWS])
    more = len(answer.rows) - ROWS
    rest = f"<p>and {more:,} rows more: <code>oomctl query FILE {query.name}</code></p>" if more > 0 else ""
    count = f"{len(answer.rows):,} row{'' if len(answer.rows) == 1 else 's'}"
    return (
        f"<details><summary>{text(query.title)} <small>{count}</small></summary>"
        f"{table(heads, body)}{rest}"
        f"<details><summary>SQL: {text(query.name)}</summary><pre>{text_block(query.sql)}</pre></details></details>"
    )


def _cells(row: Sequence[Any]) -> Iterable[str]:
    return "".join(_cell(plain(value)) for value in row)


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="n">{value:,}</td>' if isinstance(value, int) else f'<td class="n">{value:g}</td>'
    return f"<td>{text(str(value)[:400])}</td>"


def _json(spec: "Spec") -> str:
    """A chart's text for a script element: nothing in it can end the element, or steer a terminal that prints the file."""
    from oomctl.cli.render.text import escape_json

    document = escape_json(msgspec.json.encode(spec).decode())
    return document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
