"""From arguments to snapshots: files, globs, folders of per-rank files; and a snapshot as an input of the event table."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oomctl.inputs import STDIN, Report, expand, label, on_disk
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.heap import Snapshot
from oomctl.schemas.version import PARQUET_MAGIC

if TYPE_CHECKING:
    from oomctl.schemas.verdict import Input
    from oomctl.target import Target

HEAD_BYTES = 128
_HEADS = re.compile(
    rb"\x80[\x00-\x05]"  # a pickle of protocol 2 to 5
    rb"|\([dl](p\d+\n|[(SVp])"  # of protocol 0, a dictionary or a list
    rb"|[\]}][q(]"  # of protocol 1
    rb'|\s*\{\s*"(segments|device_traces|allocator_settings|external_annotations)"\s*:'
    rb'|\s*\[\s*\{\s*"device"\s*:\s*\d+\s*,\s*"address"\s*:'
)
_OWN_KEYS = (b'"total_size"', b'"segment_type"', b'"blocks"')
"""Of a segment: together nothing else has them, whatever key a document begins with."""
_RANK = re.compile(r"rank[_-]?(\d{1,5})", re.IGNORECASE)


def open_snapshots(paths: Sequence[str], report: Report) -> Iterator[Snapshot]:
    """Each snapshot that the arguments mean, one at a time.

    Args:
        paths: Files, globs, folders.
        report: Called with each that could not be read, where there are several.

    Raises:
        OomctlError: If none could be read, or one of a single argument.
    """
    skipped: list[OomctlError] = []
    files = expand(paths, skipped.append)
    if STDIN in files:
        raise OomctlError("a snapshot is read from a file, not from a pipe (stdin)", "save it first", ExitCode.USAGE)
    read = 0
    for path in files:
        try:
            for snapshot in _snapshots(path):
                read += 1
                yield snapshot
        except OomctlError as error:
            skipped.append(error)
        except OSError as error:
            from oomctl.inputs import unreadable

            skipped.append(unreadable(path, error))
    if not read and len(skipped) == 1:
        raise skipped[0]
    for problem in skipped:
        report(problem)
    if not read:
        raise OomctlError(f"none of the {len(skipped)} inputs could be read", "give at least one allocator snapshot")


def _snapshots(path: str) -> Iterable[Snapshot]:
    """Those of a file; what reads the other kind of file is not loaded."""
    with Path(path).open("rb") as file:
        parquet = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    if parquet:
        from oomctl.analyzers.allocator.imported import imported

        return imported(Path(path), label(path))
    from oomctl.collectors.artifacts.torch_snapshot import load_snapshot

    return [load_snapshot(path, label(path))]


def looks_like_snapshot(head: bytes) -> bool:
    """Whether a file begins like a pickle of a list or a dict, or like a snapshot's JSON.

    Args:
        head: Its first bytes, HEAD_BYTES where it has so many; more find a JSON document that begins with other keys.
    """
    return _HEADS.match(head) is not None or (head.lstrip()[:1] in (b"{", b"[") and all(key in head for key in _OWN_KEYS))


def load_snapshot_file(target: "Target", name: str, stream: io.BufferedReader, path: str | None) -> "Input | None":
    """Load a snapshot into the event table.

    Args:
        target: What to load it into.
        name: What to call it.
        stream: Its bytes.
        path: Where it lies unpacked, if it does.

    Returns:
        None if it is none; nothing was read then.

    Raises:
        OomctlError: If it cannot be read, or an input of that name was.
    """
    if not looks_like_snapshot(stream.peek(HEAD_BYTES)):
        return None
    from oomctl.collectors.artifacts.torch_snapshot import load_snapshot
    from oomctl.collectors.artifacts.torch_snapshot.table import load_events
    from oomctl.schemas import verdict

    target.refuse_known({name}, name)
    with on_disk(path, stream) as place:
        try:
            snapshot = load_snapshot(str(place), name)
        except OomctlError as error:
            # Any pickle begins so: whoever gave it may not have meant a snapshot.
            what = f"not a text log ({name}), and no snapshot that can be read: {error.what.removesuffix(f' ({name})')}"
            raise OomctlError(what, error.hint, error.exit_code) from error
        rows = load_events(target.connection, snapshot, rank_of(name))
        target.streams.add(name)
        return verdict.Input(path=name, format="snapshot", bytes=place.stat().st_size, rows=rows)


def rank_of(name: str) -> int | None:
    """The rank that a file's name tells (rank_3, rank3), or None."""
    found = _RANK.search(name.rsplit("/", 1)[-1])
    return int(found[1]) if found else None
