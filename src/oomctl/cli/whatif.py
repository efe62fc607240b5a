"""`oomctl snapshot whatif`: would the run have fitted under other settings of the allocator?"""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.analyzers.allocator.model.whatif import Question


def run(
    files: list[str],
    expandable: bool | None,
    max_split: str | None,
    gc_threshold: float | None,
    divisions: int | None,
    room: str | None,
    limit: str | None,
    json: bool,
    width: int,
) -> None:
    """Answer for each device of each file that has a history.

    Args:
        files: Snapshots.
        expandable: --expandable-segments; None keeps what the file tells, as for the other settings.
        max_split: --max-split-size.
        gc_threshold: --garbage-collection-threshold.
        divisions: --roundup-power2-divisions.
        room: --room: what the process may take from the device.
        limit: --limit: the limit that it set on itself.
        json: One object instead of a page.
        width: Of the page.

    Raises:
        OomctlError: If a value is out of range, or no file has a history.
    """
    from oomctl.analyzers.allocator.model.settings import INTERVALS, settings_of
    from oomctl.analyzers.allocator.model.whatif import ask
    from oomctl.analyzers.allocator.rules import LARGE_SEGMENT_BYTES
    from oomctl.cli.boundary import warn
    from oomctl.cli.render import snapshots
    from oomctl.cli.units import parse_size
    from oomctl.snapshots import open_snapshots

    if gc_threshold is not None and not 0 < gc_threshold < 1:
        raise OomctlError("--garbage-collection-threshold is a share of the limit", "between 0 and 1", ExitCode.USAGE)
    if divisions is not None and (divisions < 1 or divisions & (divisions - 1)):
        raise OomctlError("--roundup-power2-divisions is a power of two", "for instance 4", ExitCode.USAGE)
    changes: dict[str, Any] = {}
    if expandable is not None:
        changes["expandable"] = expandable
    if max_split is not None:
        changes["max_split_bytes"] = parse_size(max_split, "--max-split-size")
        if changes["max_split_bytes"] <= LARGE_SEGMENT_BYTES:
            raise OomctlError("--max-split-size must be more than 20 MiB", "PyTorch takes no less", ExitCode.USAGE)
    if gc_threshold is not None:
        changes["gc_threshold"] = gc_threshold
    if divisions is not None:
        changes["divisions"] = (divisions,) * INTERVALS
    limit_bytes = parse_size(limit, "--limit") if limit is not None else None
    room_bytes = parse_size(room, "--room") if room is not None else None
    found: list[Question] = []
    for opened in open_snapshots(files, warn):
        told = settings_of(opened.settings, limit_bytes)
        asked = replace(told, **changes)
        found += [ask(opened, device, asked, room_bytes) for device in opened.histories]
    if not found:
        raise OomctlError("no history to replay", "record one: torch.cuda.memory._record_memory_history()")
    sys.stdout.write(snapshots.questions_json(found) if json else snapshots.questions_page(found, width))
