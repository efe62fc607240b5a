"""How many failures are looked into one by one; the others are counted, and nothing is left out in silence."""

from collections import Counter

from oomctl.analyzers.triage.across import Group

MAX_INCIDENTS = 200
"""Each costs some queries. A crash loop that runs for a week holds thousands."""


def split(groups: list[Group]) -> tuple[list[Group], list[Group]]:
    """(those to look into, the others), each in their order: the newest of every worker before any older one."""
    seen: Counter[tuple[object, object]] = Counter()
    ages = []
    for number in reversed(range(len(groups))):
        worker = _worker(groups[number])
        ages.append((seen[worker], number))
        seen[worker] += 1
    chosen = {number for _, number in sorted(ages)[:MAX_INCIDENTS]}
    kept = [group for number, group in enumerate(groups) if number in chosen]
    return kept, [group for number, group in enumerate(groups) if number not in chosen]


def alike(kept: list[Group], cut: list[Group]) -> tuple[list[int], int]:
    """What the failures that were not looked into count for.

    Returns:
        For each group that is looked into how many before it, of the same worker, began with the same error: they are told
        of the oldest one. And how many remain.
    """
    left = Counter((_worker(group), _error(group)) for group in cut)
    before, oldest = [0] * len(kept), set()
    for number, group in enumerate(kept):
        if _worker(group) not in oldest:
            oldest.add(_worker(group))
            before[number] = left.pop((_worker(group), _error(group)), 0)
    return before, left.total()


def _worker(group: Group) -> tuple[object, object]:
    return group[0]["stream"], group[0]["worker"]


def _error(group: Group) -> tuple[object, ...]:
    return group[0]["what"], group[0]["name"], group[0]["resource"]
