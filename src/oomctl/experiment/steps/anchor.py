"""The rate that later steps are held against: what the mix kept in step 5, or less where the machine is slower by now.

A step that misses the SLO at a rate that the mix alone misses too has found nothing about its own load.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from oomctl.experiment.rig import Rig
from oomctl.experiment.steps.base import Figures, Outcome, broken
from oomctl.schemas.experiment import Try

FIRST = 5
"""The step that finds it."""
ANCHOR = "anchor_per_s"
LOWER = 2.0
"""By so much at a time."""
TURNS = 4
"""So often loads are sent at most."""
BASELINE = "mixed alone"

Loads = Callable[[float], Sequence[Try]]


@dataclass(frozen=True)
class Held:
    """What became of loads at a share of the anchor.

    Attributes:
        anchor_per_s: Which it was at last.
        last: The tries that count.
        tries: These, and before them those of rates that were too much for the machine.
        said: That it is slower than before; "" where it is not.
    """

    anchor_per_s: float
    last: Sequence[Try]
    tries: Sequence[Try]
    said: str

    @property
    def figures(self) -> Figures:
        """What the next steps start from."""
        return {ANCHOR: self.anchor_per_s}

    def broken(self) -> Outcome | None:
        """As `base.broken`, of the tries that count."""
        bad = broken(self.last)
        return bad and replace(bad, reason="; ".join(filter(None, (bad.reason, self.said))), tries=self.tries)


def anchor(rig: Rig) -> float:
    """The rate of the mix, as the last step that used it left it.

    Raises:
        NotPossible: If step 5 found none.
    """
    told = [step.figures.get(ANCHOR) for step in rig.experiment.steps if step.number > FIRST]
    return next((float(rate) for rate in reversed(told) if isinstance(rate, int | float)), rig.rate_of(FIRST))


def hold(rig: Rig, share: float, loads: Loads, ahead: bool = False) -> Held:
    """Send loads at a share of the anchor; where they miss the SLO and the mix alone does too, anew with a lower anchor.

    Args:
        rig: Its worker gets them.
        share: Of the anchor.
        loads: Sends them at a rate.
        ahead: Whether the mix is asked first as well, for loads that take long.
    """
    was = rate = anchor(rig)
    last, tries = list[Try](), list[Try]()

    def too_fast() -> bool:
        tries.append(rig.send(rig.lengths["mixed"], rate * share, name=BASELINE))
        return tries[-1].broke == "slo"

    for left in reversed(range(TURNS)):
        if not (ahead and left and too_fast()):
            last = list(loads(rate * share))
            tries += last
            if not left or rig.gone or all(one.broke != "slo" for one in last) or not too_fast():
                break
        rate /= LOWER
    said = f"the machine is slower than before: {rate:.3g}/s of the mix in place of {was:.3g}/s" if rate < was else ""
    return Held(rate, last, tries, said)
