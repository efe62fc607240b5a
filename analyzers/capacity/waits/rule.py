"""A rule without foresight: how long to keep a context, and what to do then, by the pauses seen before."""

from typing import Literal, NamedTuple

import numpy as np

from oomctl.analyzers.capacity.waits.waste import Values

Action = Literal["preserve", "recompute", "offload"]
MAX_STEPS = 400


class Choice(NamedTuple):
    """What to do with a context.

    Attributes:
        keep_s: Hold it so long; inf: until the tool answers.
        then: What to do after that.
        waste_s: Expected, per token held.
    """

    keep_s: float
    then: Action
    waste_s: float


class Rule:
    """Chooses by expected waste, the pause X drawn from those seen.

    Keeping a context for t seconds and then dropping it wastes E[min(X, t)] + P(X > t) R, with R the time to compute it
    again. Then moving it wastes E[min(X, t + w + T)] + P(X > t + w + T) T: it is held while it waits w for the link and
    moves in T, and on its way back. Where the same is asked again after s seconds, X is taken to be longer than s.

    Args:
        seen_s: Lengths of pauses.
    """

    def __init__(self, seen_s: Values) -> None:
        self._sorted = np.sort(seen_s)
        self._sums = np.concatenate(([0.0], np.cumsum(self._sorted)))
        # Only where a pause has just ended can it be better to keep on than a moment before.
        steps = np.unique(np.quantile(self._sorted, np.linspace(0, 1, MAX_STEPS))) if len(seen_s) else np.zeros(0)
        self._steps = np.concatenate(([0.0], steps))
        self._kept, self._left = self._until(self._steps)

    def _until(self, after_s: Values) -> tuple[Values, Values]:
        """(E[min(X, t)], P(X > t)), with one imagined pause that never ends."""
        count = len(self._sorted)
        place = np.searchsorted(self._sorted, after_s, side="right")
        longer = count - place + 1
        return (self._sums[place] + longer * after_s) / (count + 1), longer / (count + 1)

    def choose(self, recompute_s: float, transfer_s: float | None, link_wait_s: float = 0.0, held_s: float = 0.0) -> Choice:
        """What to do with a context that has been held for so long already.

        Args:
            recompute_s: To compute it again.
            transfer_s: One way over the link; None: there is none.
            link_wait_s: Until the link is free.
            held_s: Since the pause began.
        """
        usable = self._steps >= held_s
        steps = np.concatenate(([held_s], self._steps[usable]))
        kept, left = self._until(steps)
        before, alive = kept[0], left[0]
        drop = (kept - before + left * recompute_s) / alive
        best = int(np.argmin(drop))
        choice = Choice(float(steps[best]), "recompute", float(drop[best]))
        if transfer_s is not None:
            gone, still = self._until(steps + link_wait_s + transfer_s)
            move = (gone - before + still * transfer_s) / alive
            place = int(np.argmin(move))
            if move[place] < choice.waste_s:
                choice = Choice(float(steps[place]), "offload", float(move[place]))
        return choice
