"""How often, and whether more often: exact intervals, which hold for few and for no events.

An event is a worker-hour with at least one such incident, so a crash loop counts once.
"""

from collections.abc import Callable
from math import exp, lgamma, log, log1p

STEPS = 60
"""Halvings of an interval that is sought: far below what is printed."""


def at_least(events: int, trials: int, chance: float) -> float:
    """The probability of at least so many events in independent trials, each of which has one by that chance."""
    if events <= 0 or chance >= 1:
        return 1.0
    if chance <= 0 or events > trials:
        return 0.0
    if events > trials * chance:
        return _sum(range(events, trials + 1), trials, chance)
    return 1.0 - _sum(range(events - 1, -1, -1), trials, chance)


def share(events: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a share: C. J. Clopper, E. S. Pearson, Biometrika 26 (1934).

    Args:
        events: How often it happened.
        trials: Of how many.
        confidence: That the interval holds the true share.
    """
    tail = (1 - confidence) / 2
    low = 0.0 if events == 0 else _solve(lambda chance: at_least(events, trials, chance) < tail)
    high = 1.0 if events == trials else _solve(lambda chance: 1 - at_least(events + 1, trials, chance) > tail)
    return low, high


def ratio(new: int, new_hours: int, old: int, old_hours: int, confidence: float) -> tuple[float, float | None]:
    """The interval of the ratio of two rates; None at its upper end where nothing bounds it.

    Given how many events there were in all, those of the new side are binomial: J. Przyborowski, H. Wilenski, Biometrika 31
    (1940).

    Args:
        new: Events on the new side.
        new_hours: In so many hours.
        old: On the old side.
        old_hours: In so many.
        confidence: That the interval holds the true ratio.
    """
    low, high = share(new, new + old, confidence)
    scale = old_hours / new_hours
    return scale * low / (1 - low), None if high >= 1 else scale * high / (1 - high)


def _sum(counts: range, trials: int, chance: float) -> float:
    """The probability of any of some counts, which lead away from the likeliest: the first that adds nothing ends them."""
    total = 0.0
    for events in counts:
        more = total + _exactly(events, trials, chance)
        if more == total:
            break
        total = more
    return min(total, 1.0)


def _exactly(events: int, trials: int, chance: float) -> float:
    ways = lgamma(trials + 1) - lgamma(events + 1) - lgamma(trials - events + 1)
    return exp(ways + events * log(chance) + (trials - events) * log1p(-chance))


def _solve(below: Callable[[float], bool]) -> float:
    """The chance at which an answer turns from yes to no."""
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2
