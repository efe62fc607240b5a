"""The summary of a fleet as a page, and in Markdown; the JSON has every figure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oomctl.cli.render.columns import Figure, shown, table
from oomctl.cli.render.rows import rows_md
from oomctl.cli.render.sheet import Sheet
from oomctl.cli.render.text import escape_md
from oomctl.cli.render.words import plural
from oomctl.schemas.fleet import Count, Fleet, Regression, Repeat

MOST_ROWS = 20
"""Of a table that is for reading."""
NOT_TOLD = "not told"


@dataclass
class Part:
    """A section: sentences, or a table, whose first column are names."""

    title: str
    says: Sequence[str] = ()
    heads: tuple[str, ...] = ()
    rows: Sequence[tuple[str, Sequence[Figure]]] = ()


def fleet_text(fleet: Fleet, width: int, colour: bool) -> str:
    """The whole page, newline at its end."""
    sheet = Sheet(width, colour)
    sheet.wrapped(_title(fleet), hang=2, style="bold")
    for part in _parts(fleet):
        sheet.heading(part.title.upper())
        for sentence in part.says:
            sheet.wrapped(sentence, 2, 2)
        if part.rows:
            table(sheet, part.heads, part.rows[:MOST_ROWS])
        if len(part.rows) > MOST_ROWS:
            sheet.wrapped(f"{len(part.rows) - MOST_ROWS} more: --json", 2, 2)
    return sheet.text()


def fleet_md(fleet: Fleet) -> str:
    """The same, to paste into a report."""
    lines = [f"# {escape_md(_title(fleet))}", ""]
    for part in _parts(fleet):
        lines += [f"## {escape_md(part.title)}", "", *(f"- {escape_md(sentence)}" for sentence in part.says)]
        if part.rows:
            figures = [(name, *(shown(figure) for figure in row)) for name, row in part.rows]
            lines += "".join(rows_md(("", *part.heads), figures)).rstrip("\n").split("\n")
        lines.append("")
    return "\n".join(lines)


def _title(fleet: Fleet) -> str:
    said = [plural(fleet.worker_hours, "worker-hour")]
    if fleet.workers:
        said.append(plural(fleet.workers, "worker"))
    if fleet.nodes:
        said.append(plural(fleet.nodes, "node"))
    said.append(f"{plural(fleet.incidents, 'incident')} in {plural(fleet.hit_hours, 'worker-hour')}")
    if fleet.unreadable:
        said.append(f"{fleet.unreadable:,} not to be read")
    if fleet.first is not None:
        said.append(f"{fleet.first} to {fleet.last}")
    return " · ".join(said)


def _parts(fleet: Fleet) -> Iterator[Part]:
    if fleet.compared or fleet.regressions:
        says = [_regression(one) for one in fleet.regressions]
        pairs = plural(fleet.compared, "comparison")
        yield Part("Regressions between engine versions", says or [f"none that the evidence bears, of {pairs}"])
    if fleet.repeats:
        yield Part("The same incident again", [_repeat(one) for one in fleet.repeats])
    for title, counts in (
        ("By class", fleet.by_class),
        ("By cause", fleet.by_cause),
        ("By model", fleet.by_model),
        ("By engine version", fleet.by_engine_version),
        ("By node", fleet.by_node),
        ("By hour", fleet.by_hour),
    ):
        if counts:
            rows = [(one.value or NOT_TOLD, _figures(one)) for one in counts]
            yield Part(title, (), ("incidents", "hours hit", "of hours", "rate", "95 % interval"), rows)
    if fleet.offenders:
        rows = [
            (
                one.name or NOT_TOLD if one.node is None else f"{one.name} on {one.node}",
                (one.incidents, one.hit_hours, one.worker_hours, one.most),
            )
            for one in fleet.offenders
        ]
        yield Part("Worst offenders", (), ("incidents", "hours hit", "of hours", "mostly"), rows)
    if fleet.problems:
        yield Part(
            "Not to be read", [f"{plural(one.units, 'time')}: {one.problem}; such as {one.unit}" for one in fleet.problems]
        )


def _figures(one: Count) -> tuple[Figure, ...]:
    if one.rate is None or one.rate_low is None or one.rate_high is None:
        return one.incidents, one.hit_hours, None, None, None
    return one.incidents, one.hit_hours, one.worker_hours, one.rate, f"{shown(one.rate_low)} to {shown(one.rate_high)}"


def _regression(one: Regression) -> str:
    more = f"{one.ratio:.3g} times" if one.ratio is not None else "never before"
    interval = f"at least {one.ratio_low:.3g}" + (f", at most {one.ratio_high:.3g}" if one.ratio_high is not None else "")
    return (
        f"{one.engine} {one.old_version} to {one.new_version}" + (f", {one.model}" if one.model else "") + ": "
        f"in {one.new_hit_hours:,} of {one.new_worker_hours:,} worker-hours, of {plural(one.new_workers, 'worker')}; "
        f"before in {one.old_hit_hours:,} of {one.old_worker_hours:,}: {more} ({interval}, at {one.confidence:.2%}). "
        f"Same: {_same(one.parts)} [{one.fingerprint}]"
    )


def _repeat(one: Repeat) -> str:
    where = f"{plural(one.workers, 'worker')}" + (f", {plural(one.nodes, 'node')}" if one.nodes else "")
    versions = f" · {', '.join(one.engine_versions)}" if one.engine_versions else ""
    when = f" · {one.first} to {one.last}" if one.first else ""
    return (
        f"{one.incidents:,} times in {plural(one.hit_hours, 'worker-hour')} of {where}{versions}{when}. {one.summary} "
        f"Same: {_same(one.parts)} [{one.fingerprint}]; newest: {one.unit}"
    )


def _same(parts: dict[str, Any]) -> str:
    """Why incidents are the same, in words."""
    frames = parts.get("frames", [])
    plain = [str(parts[name]) for name in ("class", "verdict", "cause", "error", "engine") if name in parts]
    return " · ".join(plain) + (f" · in {' < '.join(frames)}" if frames else "")
