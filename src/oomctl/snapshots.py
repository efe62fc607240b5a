"""From arguments to snapshots: files, globs and folders of per-rank files."""

import re
from collections.abc import Iterator, Sequence

from oomctl.inputs import STDIN, Report, expand, label
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.heap import Snapshot

_RANK = re.compile(r"rank[_-]?(\d{1,5})", re.IGNORECASE)


def open_snapshots(paths: Sequence[str], report: Report) -> Iterator[Snapshot]:
    """Each snapshot that the arguments mean, one at a time.

    Args:
        paths: Files, globs, folders.
        report: Called with each that could not be read, where there are several.

    Raises:
        OomctlError: If none could be read, or one of a single argument.
    """
    from oomctl.collectors.artifacts.torch_snapshot import load_snapshot

    skipped: list[OomctlError] = []
    files = expand(paths, skipped.append)
    if STDIN in files:
        raise OomctlError("a snapshot is read from a file, not from a pipe (stdin)", "save it first", ExitCode.USAGE)
    read = 0
    for path in files:
        try:
            snapshot = load_snapshot(path, label(path))
        except OomctlError as error:
            skipped.append(error)
        except OSError as error:
            from oomctl.inputs import unreadable

            skipped.append(unreadable(path, error))
        else:
            read += 1
            yield snapshot
    if not read and len(skipped) == 1:
        raise skipped[0]
    for problem in skipped:
        report(problem)
    if not read:
        raise OomctlError(f"none of the {len(skipped)} inputs could be read", "give at least one allocator snapshot")


def rank_of(name: str) -> int | None:
    """The rank that a file's name tells (rank_3, rank3), or None."""
    found = _RANK.search(name.rsplit("/", 1)[-1])
    return int(found[1]) if found else None
