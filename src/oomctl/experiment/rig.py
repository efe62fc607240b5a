"""What the steps work with: the worker's present life, the load, lengths, and what the steps before found."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from threading import Event

from oomctl.analyzers.capacity.experiment.breaks import Floors
from oomctl.experiment.folder import Folder
from oomctl.experiment.lengths import usual_lengths
from oomctl.experiment.life import Life, attached, launched
from oomctl.experiment.load.aiperf import Aiperf, Cancel
from oomctl.experiment.load.calls import Call, Lengths, plan
from oomctl.experiment.recorded import manifest
from oomctl.experiment.recorder import Recorder
from oomctl.experiment.settings import Settings
from oomctl.experiment.tries import Terms, attempt
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.experiment import Experiment, Try

FEWEST = 10
"""Requests of a try."""


class Rig:
    """A context manager: when it is left, nothing that it started runs.

    Args:
        settings: What was asked for.
        folder: Where everything goes.
        experiment: What was found so far.
        say: Called with what a person should know at once.

    Attributes:
        lives: Folders of the lives that the present step has seen.
        died: Recorders of those that ended in it by themselves.
        ends_us: When the requests of the last try ended, microseconds since 1970.
    """

    def __init__(self, settings: Settings, folder: Folder, experiment: Experiment, say: Callable[[str], None]) -> None:
        self.settings, self.folder, self.experiment, self.say = settings, folder, experiment, say
        floors = Floors(settings.floor_ratio, settings.device_floor_ratio, settings.error_ratio)
        self.terms = Terms(settings.slo, settings.share, floors)
        self.lives: list[Path] = []
        self.died: list[Recorder] = []
        self.ends_us: list[int] = []
        self._loads = folder.root / "aiperf"
        self._told: dict[tuple[str, str], str] = {}
        self._life: Life | None = None
        self._ending = ExitStack()

    def __enter__(self) -> "Rig":
        return self

    def __exit__(self, *error: object) -> None:
        self.down()

    @property
    def life(self) -> Life:
        """The worker; it is launched, or attached to, where that has not happened yet."""
        return self._life if self._life is not None else self.up()

    def up(self) -> Life:
        """Begin a life, whatever there was before."""
        self.down()
        self._life = self._ending.enter_context(self.another("worker"))
        return self._life

    def down(self) -> None:
        """End the present life, if there is one."""
        self._life = None
        self._ending.close()
        self._ending = ExitStack()

    def another(self, name: str, stop: Event | None = None) -> AbstractContextManager[Life]:
        """A life of the same command, beside the present one; the caller ends it, or `stop` while it loads."""
        folder = self.folder.life(name)
        self.lives.append(folder)
        settings = self.settings
        if settings.launch is not None:
            return launched(settings.launch, folder, self.folder.rings, self.terms.floors, self.say, stop)
        assert settings.url is not None
        return attached(settings.url.rstrip("/"), folder, self.terms.floors)

    def adopt(self, life: Life, ending: ExitStack) -> None:
        """Take over a life that somebody else began, with what ends it; the present one is ended."""
        self.down()
        self._life, self._ending = life, ending

    @property
    def running(self) -> bool:
        """Whether a life was begun, and not ended here."""
        return self._life is not None

    @property
    def gone(self) -> bool:
        """Whether the present life ended by itself."""
        return self._life is not None and self._life.watch.gone

    @cached_property
    def lengths(self) -> dict[str, Lengths]:
        """What is sent: short, mixed, long prompts, by name."""
        _, most_tokens = self.life.model
        if self.settings.cohorts is None:
            return usual_lengths(most_tokens)
        from oomctl.experiment.lengths import lengths_of

        return lengths_of(self.settings.cohorts, most_tokens, self.settings.seed)

    def argument(self, name: str) -> int | None:
        """A number among the engine's arguments, as the recording has them; None where it does not tell."""
        if not self._told:
            self._told = manifest(self.life.recorder.recording)
        text = self._told.get(("argument", name), "")
        return int(text) if text.isdecimal() else None

    def plan(
        self,
        lengths: Lengths,
        rate_per_s: float,
        seconds: float | None = None,
        shared_tokens: int = 0,
        change: Callable[[Call, random.Random], Call] | None = None,
    ) -> list[Call]:
        """Requests for the next try: the same arrivals and lengths each time, and tokens that no try before has sent.

        Without `seconds` it lasts as long as asked for, or until there are enough requests to tell something.
        """
        seconds = max(self.settings.try_s, FEWEST / rate_per_s) if seconds is None else seconds
        sent = sum(1 for _ in self._loads.glob("[0-9]*"))
        return plan(lengths, rate_per_s, seconds, self.settings.seed, sent, shared_tokens, change)

    def send(
        self,
        lengths: Lengths,
        rate_per_s: float,
        calls: Sequence[Call] | None = None,
        name: str | None = None,
        cancel: Cancel | None = None,
    ) -> Try:
        """One try, of these calls or those of `plan`, told to whoever watches."""
        planned = self.plan(lengths, rate_per_s) if calls is None else calls
        model, _ = self.life.model
        load = Aiperf(self.life.url, model, self._loads, self.settings.seed)
        begun_s = time.monotonic()
        found, self.ends_us = attempt(self.life, load, name or lengths.name, rate_per_s, planned, self.terms, cancel)
        said = f"{found.broke} broke: {found.reason}" if found.broke else f"{found.good} of {found.requests} good"
        self.say(f"{found.load} at {rate_per_s:.3g}/s: {said} ({time.monotonic() - begun_s:.0f} s)")
        return found

    def rate_of(self, number: int) -> float:
        """The highest rate that a step before found kept.

        Raises:
            OomctlError: If it found none.
        """
        step = self.experiment.step(number)
        rate = step.figures.get("rate_per_s") if step is not None else None
        if not isinstance(rate, int | float):
            raise NotPossible(f"step {number} found no rate that was kept")
        return float(rate)


class NotPossible(OomctlError):
    """A step cannot be done here: it is skipped, for this reason."""
