"""The forms of a report: the page, Markdown for a ticket, the data."""

from typing import TYPE_CHECKING

from oomctl.cli.render.markdown import triage_md
from oomctl.cli.render.rows import plain, rows_md
from oomctl.cli.render.text import document, escape_md
from oomctl.report.build import Report, specs
from oomctl.report.panels import SECTIONS

if TYPE_CHECKING:
    from oomctl.report.charts import Spec

SCHEMA = "oomctl.report/0"
MD_ROWS = 20
"""Of a table in a ticket; the query gives them all."""


def as_html(report: Report) -> str:
    """The page."""
    from oomctl.report.bundle import chart_code
    from oomctl.report.page import page

    charts = specs(report)
    return page(report, charts, chart_code() if charts else "")


def as_json(report: Report) -> str:
    """The verdict, and each answer with its query, columns and rows."""
    answers = [
        {
            "query": answer.query.name,
            "title": answer.query.title,
            "missing": answer.missing,
            "columns": answer.columns,
            "rows": [[plain(value) for value in row] for row in answer.rows],
            "sql": answer.query.sql,
        }
        for answer in report.answers.values()
    ]
    return document({"schema": SCHEMA, "triage": report.triage, "answers": answers})


def as_markdown(report: Report, stem: str | None) -> tuple[str, dict[str, bytes], str | None]:
    """Text for a ticket.

    Args:
        report: What it tells.
        stem: Name of the file without its ending, to name pictures after; None for text alone.

    Returns:
        The text, its pictures as PNG by file name, and why it has none where it might.
    """
    drawn = specs(report) if stem is not None else {}
    pictures, problem = _pictures(drawn, stem or "")
    parts = [triage_md(report.triage)]
    for section in SECTIONS:
        answers = [report.answers[name] for name in section.queries]
        name = f"{stem}-{section.key}.png"
        if name not in pictures and not any(answer.rows or answer.missing for answer in answers):
            continue
        parts.append(f"## {escape_md(section.title)}\n")
        if name in pictures:
            parts.append(f"![{escape_md(section.title)}](<{name}>)\n")
        for answer in answers:
            if answer.missing:
                parts.append(f"- {escape_md(answer.query.title)}: {escape_md(answer.missing)}\n")
            elif answer.rows:
                shown = [[plain(value) for value in row] for row in answer.rows[:MD_ROWS]]
                more = len(answer.rows) - len(shown)
                parts.append(f"{escape_md(answer.query.title)}:\n\n" + "".join(rows_md(answer.columns, shown)))
                if more > 0:
                    parts.append(f"and {more:,} rows more: `oomctl query FILE {answer.query.name}`\n")
    return "\n".join(parts), pictures, problem


def _pictures(drawn: "dict[str, Spec]", stem: str) -> tuple[dict[str, bytes], str | None]:
    if not drawn:
        return {}, None
    try:
        import vl_convert
    except ImportError:
        return {}, "no charts: vl-convert-python is not installed; the HTML page has them"
    return {f"{stem}-{key}.png": vl_convert.vegalite_to_png(spec, scale=2) for key, spec in drawn.items()}, None
