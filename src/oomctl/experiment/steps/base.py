"""What a step is, and what it hands back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from oomctl.experiment.rig import Rig
from oomctl.schemas.experiment import Leak, Status, Try

Need = Literal["launch"]
Figures = dict[str, float | int | str | None]


@dataclass(frozen=True)
class Outcome:
    """What a step found.

    Attributes:
        status: Of the step.
        reason: Why, where it is not "passed"; what is worth knowing, where it is.
        figures: By name, with its unit.
        tries: Loads that were sent.
        leaks: Figures of memory over time.
    """

    status: Status
    reason: str = ""
    figures: Figures = field(default_factory=dict)
    tries: Sequence[Try] = ()
    leaks: Sequence[Leak] = ()


@dataclass(frozen=True)
class Step:
    """One of the ten.

    Attributes:
        number: Its place.
        name: In a few words.
        run: Does it. Raises NotPossible where it cannot be done here.
        needs: "launch": the experiment has to start and end the server.
    """

    number: int
    name: str
    run: Callable[[Rig], Outcome]
    needs: Need | None = None


def broken(tries: Sequence[Try]) -> Outcome | None:
    """The outcome of a step whose load was to be kept, where a guard ended it or something gave way; None: it was kept."""
    for one in tries:
        if one.stopped_in_s is not None:
            return Outcome("aborted", f"{one.load} at {one.rate_per_s:.3g}/s: {one.reason}", {}, tries)
        if one.broke is not None:
            return Outcome("failed", f"{one.load} at {one.rate_per_s:.3g}/s: {one.reason}", {}, tries)
    return None
