"""An experiment as a page: the operating point, then the steps with their figures and tries; the JSON has every figure."""

from collections.abc import Iterator, Sequence

from oomctl.analyzers.capacity.experiment.compare import ExperimentDiff
from oomctl.cli.render.columns import Figure, percent, table
from oomctl.cli.render.sheet import Sheet
from oomctl.cli.render.words import human
from oomctl.schemas.experiment import Advice, Experiment, Leak, OperatingPoint, Step, Try

STYLES = {"passed": "green", "failed": "red", "aborted": "red", "skipped": "yellow"}
BREAKS = {
    "slo": "the SLO breaks first, before memory",
    "kv_blocks": "memory breaks first: KV blocks",
    "device": "memory breaks first: the device's",
    "host": "memory breaks first: the host's",
    "errors": "answers fail first",
}
LEAKS = 6
"""Lines of figures that do not grow."""


def experiment_text(found: Experiment, width: int, colour: bool) -> str:
    """The whole page, newline at its end."""
    sheet = Sheet(width, colour)
    sheet.wrapped(title(found), hang=2, style="bold")
    sheet.gap()
    for line in point_lines(found):
        sheet.wrapped(line)
    for incident in found.incidents:
        page = f" ({incident.report})" if incident.report is not None else ""
        sheet.wrapped(f"step {incident.step}: {incident.summary}{page}", hang=2, style="red")
    for step in found.steps:
        sheet.heading(f"{step.number}. {step.name}")
        sheet.add(step.status, STYLES[step.status], 2)
        if step.reason:
            sheet.wrapped(step.reason, indent=2)
        _figures(sheet, step)
        if step.tries:
            table(sheet, TRIED, [(f"{one.load} at {one.rate_per_s:.3g}/s", tried(one)) for one in step.tries])
        if step.leaks:
            shown = [leak for leak in step.leaks if leak.grows] or list(step.leaks[:LEAKS])
            table(sheet, LEAKED, [(f"{leak.figure} {leak.whose}", leaked(leak)) for leak in shown])
    return sheet.text()


def diff_text(found: ExperimentDiff, width: int, colour: bool) -> str:
    """Two experiments, newline at its end."""
    sheet = Sheet(width, colour)
    said = {True: "The operating points are the same, within what repeated runs differ by.",
            False: "The operating points differ.", None: "One of them has no operating point."}  # fmt: skip
    sheet.wrapped(said[found.same_rate], style="bold")
    first, second = found.breaks_first
    if first != second:
        sheet.wrapped(f"First gave way: {_or_nothing(first)}; now {_or_nothing(second)}.")
    for title, pairs in (("ASKED OTHERWISE", found.settings), ("ENDED OTHERWISE", found.steps)):
        if pairs:
            sheet.heading(title)
            for name, (old, new) in pairs.items():
                sheet.wrapped(f"{name}: {_or_nothing(old)} -> {_or_nothing(new)}", indent=2, hang=2)
    for title, moves in (("LIMITS", found.limits), ("LEAKS, bytes a request", found.leaks)):
        rows = [(one.name, (one.before, one.after, percent(one.change))) for one in moves]
        if rows:
            sheet.heading(title)
            table(sheet, ("before", "after", "change"), rows)
    return sheet.text()


def _or_nothing(value: object) -> str:
    return "nothing" if value is None else str(value)


TRIED = ("requests", "good", "failed", "TTFT s p50", "p99", "TPOT ms p50", "p99", "preempted", "free blocks", "broke",
         "after s", "stopped in s")  # fmt: skip
LEAKED = ("readings", "bytes a request", "from", "to", "grows")


def title(found: Experiment) -> str:
    """Whose experiment it is, and what a good answer was."""
    engine = " ".join(filter(None, (found.engine, found.engine_version)))
    aim = f"{percent(found.share)} within TTFT {found.slo.ttft_s:g} s and TPOT {found.slo.tpot_s * 1000:g} ms"
    return " · ".join(filter(None, (found.model, engine, aim)))


def point_lines(found: Experiment) -> Iterator[str]:
    """What was found, in sentences."""
    point = found.point
    if not found.complete:
        yield "Not complete: give the command again to go on."
    other = [f"{step.number} {step.name} ({step.status})" for step in found.steps if step.status != "passed"]
    if other:
        yield f"Not passed: {'; '.join(other)}."
    if point is None:
        if found.complete:
            yield "No operating point: no rate was kept."
        return
    yield f"Operating point: {point.rate_per_s:.3g} requests per second."
    if point.breaks_first is None:
        yield "Nothing gave way at any rate that was tried."
    else:
        yield f"At {point.broken_rate_per_s:.3g} per second {BREAKS[point.breaks_first]}."
    left = list(_left(found, point))
    if left:
        yield f"Free at the operating point, at least: {', '.join(left)}."
    if point.advice is not None:
        yield _advised(point.advice)


def _left(found: Experiment, point: OperatingPoint) -> Iterator[str]:
    total = found.limits.total_blocks if found.limits is not None else None
    if point.margin_blocks is not None:
        of = f" of {total:,} ({percent(point.margin_blocks / total)})" if total else ""
        yield f"{point.margin_blocks:,}{of} KV blocks"
    for place, size in (("device", point.margin_device_bytes), ("host", point.margin_host_bytes)):
        if size is not None:
            yield f"{human(size)} of the {place}"


def _advised(advice: Advice) -> str:
    if advice.setting is None:
        return f"No setting of the engine lifts it: {advice.why}."
    now = f" (now {advice.present})" if advice.present is not None else ""
    to = f" to {advice.to:,}" if advice.to is not None else ""
    return f"Change first: {advice.change} {advice.setting}{now}{to}: {advice.why}."


def _figures(sheet: Sheet, step: Step) -> None:
    told = [f"{name} {value}" for name, value in shown_figures(step)]
    if told:
        sheet.wrapped(" · ".join(told), indent=2, hang=2, style="dim")


def shown_figures(step: Step) -> Iterator[tuple[str, str]]:
    """Names and figures of a step as text, without those that were not observed."""
    for name, value in step.figures.items():
        if isinstance(value, str):
            yield name, value
        elif value is not None and "_bytes" in name:
            yield name, human(round(value))
        elif value is not None:
            yield name, f"{value:.4g}" if isinstance(value, float) else f"{value:,}"


def tried(one: Try) -> Sequence[Figure]:
    """Columns TRIED of a try."""
    tpot = [None if value is None else value * 1000 for value in (one.tpot_s.p50, one.tpot_s.p99)]
    return (one.requests, one.good, one.failed or None, one.ttft_s.p50, one.ttft_s.p99, *tpot, one.preemptions or None,
            one.least_free_blocks, one.broke, one.broke_s, one.stopped_in_s)  # fmt: skip


def leaked(leak: Leak) -> Sequence[Figure]:
    """Columns LEAKED of a figure over time."""
    grows = None if leak.grows is None else "yes" if leak.grows else "no"
    return (leak.points, leak.slope_bytes_per_request, leak.low_bytes_per_request, leak.high_bytes_per_request, grows)
