"""`oomctl snapshot growth` and `lifetimes`: what the history of a snapshot tells of call sites."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.schemas.heap import Snapshot

START = "start"


def growth(files: list[str], since: str, at: str | None, json: bool, width: int) -> None:
    """What each call site holds more, or less, after one event than after an earlier one.

    Args:
        files: Snapshots with a history.
        since: start, peak, oom or an index: the earlier instant.
        at: The later one, in the same words; None is the snapshot's own.
        json: One object per device, each on a line of its own, instead of a page.
        width: Of the page.

    Raises:
        OomctlError: If an instant is none of the history, or the two are the wrong way round.
    """
    from oomctl.analyzers.allocator.diff import diff, side
    from oomctl.analyzers.allocator.report import instant
    from oomctl.analyzers.allocator.rewind import rewind
    from oomctl.cli.render import snapshots

    for opened, device in _with_history(files):
        end = len(opened.histories[device]) - 1
        first = -1 if since == START else instant(opened, device, since)
        last = end if at is None else instant(opened, device, at)
        if first >= last:
            raise OomctlError(f"--since {since} is not before --at {at or 'the end'}", "swap them", ExitCode.USAGE)
        before, after = (side(rewind(opened, device, n)) for n in (first, last))
        before.file = f"{opened.name}, device {device}, {f'event {first}' if first >= 0 else 'before its first event'}"
        after.file = f"event {last}"
        result = diff(before, after)
        sys.stdout.write(snapshots.growth_line(result) if json else snapshots.diff_page(result, width))


def lifetimes(files: list[str], json: bool, width: int) -> None:
    """How long blocks live, by call site."""
    from oomctl.analyzers.allocator import lifetimes as lives
    from oomctl.cli.render import snapshots

    found = [(opened.name, device, lives.lifetimes(opened, device)) for opened, device in _with_history(files)]
    sys.stdout.write(snapshots.lifetimes_json(found) if json else snapshots.lifetimes_page(found, width))


def _with_history(files: list[str]) -> "Iterator[tuple[Snapshot, int]]":
    from oomctl.cli.boundary import warn
    from oomctl.snapshots import open_snapshots

    empty = True
    for opened in open_snapshots(files, warn):
        for device in opened.histories:
            empty = False
            yield opened, device
    if empty:
        raise OomctlError("no history in it", "record one: torch.cuda.memory._record_memory_history()")
