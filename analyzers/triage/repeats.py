"""Crash loops: starts that failed the same way, one after the other, are told once."""

from oomctl.schemas.verdict import Incident


def fold(found: list[tuple[str, Incident]]) -> list[Incident]:
    """The incidents, of each run of alike failures of successive starts only the newest, with the number of the others.

    Args:
        found: (stream, incident) in their order; `repeats` of each is what was counted before it.
    """
    kept: list[Incident | None] = []
    newest: dict[tuple[str, str | None], int] = {}
    for stream, item in found:
        kept.append(item)
        if item.survived is True:
            continue
        worker = (stream, item.worker)
        before = kept[newest[worker]] if worker in newest else None
        if before is not None and _again(before, item):
            item.repeats += before.repeats + 1
            kept[newest[worker]] = None
        newest[worker] = len(kept) - 1
    incidents = [item for item in kept if item is not None]
    for item in incidents:
        if item.repeats:
            starts = "1 earlier start" if item.repeats == 1 else f"{item.repeats} earlier starts"
            item.summary = f"{item.summary.removesuffix('.')}; {starts} failed the same way."
    return incidents


def _again(before: Incident, item: Incident) -> bool:
    """Whether an incident is the one before once more, at the worker's next start."""
    return _way(before) == _way(item) and _follows(before.incarnation, item.incarnation)


def _way(item: Incident) -> tuple[str | None, ...]:
    return (item.verdict, item.oom_class, item.resource, item.causes[0].cause if item.causes else None)


def _follows(before: str | None, after: str | None) -> bool:
    if before is not None and after is not None and before.isdecimal() and after.isdecimal():
        return int(after) == int(before) + 1
    return before != after
