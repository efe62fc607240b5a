"""Runs the steps that are left, keeps each outcome as it comes, and tells of a worker that died."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from oomctl.experiment.conclusion import conclude
from oomctl.experiment.died import incidents_of
from oomctl.experiment.folder import Folder
from oomctl.experiment.life import DiedEarly
from oomctl.experiment.load.aiperf import find
from oomctl.experiment.page import NAME, page
from oomctl.experiment.recorded import manifest, readings
from oomctl.experiment.rig import NotPossible, Rig
from oomctl.experiment.settings import Settings
from oomctl.experiment.steps import STEPS, Outcome
from oomctl.experiment.steps import Step as Doing
from oomctl.schemas import whole
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.experiment import Experiment, Step

END_OF = ("device", "host")
"""What broke there is no step's own matter: the experiment ends."""


def run(settings: Settings, say: Callable[[str], None], steps: Sequence[Doing] = STEPS) -> Experiment:
    """Go on with an experiment until its end, or until it has to stop.

    Args:
        settings: What is asked.
        say: Called with what a person should know at once.
        steps: In their order.

    Raises:
        OomctlError: If its folder, its server or its load cannot be had.
    """
    find()
    folder = Folder(settings.root)
    with folder.held():
        experiment = folder.resume(settings)
        folder.keep(experiment)
        with Rig(settings, folder, experiment, say) as rig:
            for doing in steps:
                if experiment.step(doing.number) is None and not _did(doing, rig, experiment):
                    break
        experiment.complete = all(
            (done := experiment.step(doing.number)) is not None and done.status != "aborted" for doing in steps
        )
        folder.keep(experiment)
        whole.write(settings.root / NAME, page(experiment).encode())
    return experiment


def _did(doing: Doing, rig: Rig, experiment: Experiment) -> bool:
    """Do a step and keep what it found; False if the experiment cannot go on."""
    rig.lives, rig.died = [rig.life.folder] if rig.running else [], []
    began_us = time.time_ns() // 1000
    rig.say(f"step {doing.number}: {doing.name}")
    outcome, goes_on = _outcome(doing, rig)
    for recorder in rig.died:
        recorder.finish()
        experiment.incidents += incidents_of(doing.number, recorder, rig.folder.root)
    if goes_on and rig.running and outcome.status != "skipped":
        rig.life.recorder.wait_for_rows()
    ended_us = time.time_ns() // 1000
    root = rig.folder.root
    recordings = [str((life / "recording").relative_to(root)) for life in rig.lives if (life / "recording").is_dir()]
    step = Step(
        number=doing.number,
        name=doing.name,
        status=outcome.status,
        reason=outcome.reason,
        began_us=began_us,
        ended_us=ended_us,
        recordings=recordings,
        figures=dict(outcome.figures),
        tries=list(outcome.tries),
        leaks=list(outcome.leaks),
        evidence=readings([root / name for name in recordings], began_us, ended_us) if outcome.status != "skipped" else [],
    )
    experiment.steps.append(step)
    _identify(experiment, rig, [root / name for name in recordings])
    conclude(experiment, rig.terms.floors)
    rig.folder.keep(experiment)
    rig.say(f"step {doing.number}: {step.status}" + (f": {step.reason}" if step.reason else ""))
    broke = step.tries[-1].broke if step.tries and step.status in ("failed", "aborted") else None
    return goes_on and broke not in END_OF


def _outcome(doing: Doing, rig: Rig) -> tuple[Outcome, bool]:
    """What a step found, and whether there is a worker to go on with."""
    if doing.needs == "launch" and rig.settings.launch is None:
        return Outcome("skipped", "the server was not launched here (--url)"), True
    try:
        outcome = doing.run(rig)
    except DiedEarly as early:
        rig.died.append(early.recorder)
        return Outcome("aborted", str(early)), False
    except OomctlError as why:
        # Of a worker that is gone, what else could not be had is no news.
        if not rig.gone and not isinstance(why, NotPossible):
            raise
        outcome = Outcome("skipped", why.what)
    if rig.gone:
        rig.died.append(rig.life.recorder)
        return Outcome("aborted", "the worker is gone", outcome.figures, outcome.tries), False
    return outcome, True


def _identify(experiment: Experiment, rig: Rig, recordings: Sequence[Path]) -> None:
    """Who the worker is, by its own word and by the recording's."""
    if rig.running and not rig.gone:
        experiment.model = experiment.model or rig.life.model[0]
        experiment.engine = experiment.engine or rig.life.watch.engine
    if not experiment.arguments:
        told = next((found for folder in recordings if (found := manifest(folder))), {})
        experiment.engine_version = told.get(("engine", "version"))
        experiment.arguments = {key: value for (section, key), value in sorted(told.items()) if section == "argument"}
