"""The report beside the artifact: one HTML file that loads nothing and runs no script."""

from collections.abc import Iterator, Sequence

from oomctl.cli.render.columns import Figure, shown
from oomctl.cli.render.experiment import LEAKED, TRIED, leaked, point_lines, shown_figures, title, tried
from oomctl.cli.render.heap_svg import text
from oomctl.report.html import head, table
from oomctl.schemas.experiment import Experiment, Reading, Step

NAME = "report.html"
READ = ("whose", "readings", "first", "last", "least", "most", "stream", "rows")


def page(found: Experiment) -> str:
    """The whole file."""
    parts = [
        *head("oomctl: capacity experiment"),
        f"<main><section><h1>Capacity experiment</h1><p>{text(title(found))}</p>",
        *(f"<p><strong>{text(line)}</strong></p>" for line in point_lines(found)),
        *_incidents(found),
        "</section>",
        *(part for step in found.steps for part in _step(step)),
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _incidents(found: Experiment) -> Iterator[str]:
    for one in found.incidents:
        link = f' <a href="{text(one.report)}">{text(one.report)}</a>' if one.report is not None else ""
        yield f"<p>step {one.step}: {text(one.summary)}{link}</p>"


def _step(step: Step) -> Iterator[str]:
    yield f"<section><h2>{step.number}. {text(step.name)}: {text(step.status)}</h2>"
    if step.reason:
        yield f"<p>{text(step.reason)}</p>"
    told = list(shown_figures(step))
    if told:
        yield _table(("figure", ""), told)
    if step.tries:
        rows = [(f"{one.load} at {one.rate_per_s:.3g}/s", *tried(one)) for one in step.tries]
        yield _table(("load", *TRIED), rows)
    if step.leaks:
        yield _table(("figure", *LEAKED), [(f"{leak.figure} {leak.whose}", *leaked(leak)) for leak in step.leaks])
    if step.evidence:
        folders = ", ".join(step.recordings)
        head = f"<summary>evidence: {len(step.evidence)} figures of {text(folders)}</summary>"
        yield f"<details>{head}{_table(('figure', *READ), [_read(one) for one in step.evidence])}</details>"
    yield "</section>"


def _read(one: Reading) -> Sequence[Figure]:
    rows = f"{one.first_seq} to {one.last_seq}"
    return (one.figure, one.whose, one.readings, one.first, one.last, one.least, one.most, one.stream, rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[Figure]]) -> str:
    names = "".join(f"<th>{text(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{text(shown(value))}</td>' for value in row)}</tr>" for row in rows)
    return table(names, body)
