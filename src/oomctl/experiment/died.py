"""A worker that died: what the recorder froze, triaged, and a page of it."""

from pathlib import Path

from oomctl.experiment.recorder import Recorder
from oomctl.schemas import whole
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.experiment import Incident


def incidents_of(step: int, recorder: Recorder, root: Path) -> list[Incident]:
    """Triage what was frozen of a worker that ended, and write a page for each file.

    Args:
        step: In which it ended.
        recorder: Has seen its end.
        root: The experiment's folder.
    """
    from oomctl.report.build import build
    from oomctl.report.forms import as_html

    found: list[Incident] = []
    for file in recorder.incidents or [recorder.recording]:
        try:
            report = build([str(file)], lambda problem: None)
        except OomctlError as error:
            found.append(_untold(step, f"nothing could be told of it: {error.what}"))
            continue
        page = root / f"incident-{step}-{file.stem}.html"
        try:
            whole.write(page, as_html(report).encode())
            name: str | None = page.name
        except OomctlError:
            # Without the chart code there is no page; the verdict is told all the same.
            name = None
        found += [
            Incident(
                step=step,
                summary=one.summary,
                verdict=one.verdict,
                oom_class=one.oom_class,
                resource=one.resource,
                report=name,
            )
            for one in report.triage.incidents
        ]
    return found or [_untold(step, "the worker ended, and nothing recorded says why")]


def _untold(step: int, summary: str) -> Incident:
    return Incident(step=step, summary=summary, verdict=None, oom_class=None, resource=None, report=None)
