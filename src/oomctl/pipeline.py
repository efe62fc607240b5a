"""From paths to a verdict: every input becomes rows of one event table, and the analyzers read that table."""

import errno
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from oomctl import progress, rotation
from oomctl.inputs import STDIN, Report, expand, label, opened, unreadable
from oomctl.logfiles import load_log, problem_of
from oomctl.packed import Rotated
from oomctl.schemas import storage, text_forms, verdict
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.version import PARQUET_MAGIC
from oomctl.snapshots import load_snapshot_file
from oomctl.spans import load_span_file
from oomctl.tables import load_table
from oomctl.target import Target

LIVE_MAGIC = b"OOMCTLL\n"
"""Of a recorder's live files; tested equal to theirs, which a log's reading need not load."""

if TYPE_CHECKING:
    import duckdb

    from oomctl.collectors.artifacts.streams import Unpacked
    from oomctl.schemas.ledger import Ledger


@dataclass
class Loaded:
    """The event table of some inputs.

    Attributes:
        connection: Holds it; the caller closes it.
        inputs: What was read.
        skipped: What could not be read, or only in part.
    """

    connection: "duckdb.DuckDBPyConnection"
    inputs: list[verdict.Input]
    skipped: list[OomctlError]


def open_inputs(paths: Sequence[str], warn: Report | None = None, cut: storage.Cut | None = None) -> Loaded:
    """Load logs and recordings into one event table.

    Args:
        paths: Files, globs, folders, or "-" for standard input; a path given twice is read once.
        warn: Called with each input that could not be read, where others could or several could not.
        cut: What of recordings is loaded, where not all of it will be asked for.

    Raises:
        OomctlError: If none could be read.
    """
    skipped: list[OomctlError] = []
    files = expand(paths, skipped.append)
    connection = storage.connect()
    target = Target(connection, cut)
    inputs: list[verdict.Input] = []
    with progress.noted() as target.watch:
        for parts in rotation.sets(files):
            if len(parts) > 1 and all(_is_log(part) for part in parts):
                inputs += _load_rotated(target, parts, skipped.append)
            else:
                for path in parts:
                    inputs += _load(target, path, skipped.append)
    if not inputs and len(skipped) == 1:
        raise skipped[0]
    if warn is not None:
        for problem in skipped:
            warn(problem)
    if not inputs:
        raise OomctlError(f"none of the {len(skipped)} inputs could be read", "give at least one log or recording")
    return Loaded(connection, inputs, skipped)


def triage_paths(
    paths: Sequence[str], last: bool = False, warn: Report | None = None, ledger: "Ledger | None" = None
) -> verdict.Triage:
    """The verdict on some logs or recordings.

    Args:
        paths: As for `open_inputs`.
        last: Only the newest incarnation of a crash loop.
        warn: As for `open_inputs`.
        ledger: Of the deployment, for what the inputs do not tell.
    """
    from oomctl.analyzers.triage.asked import CUT

    with judged(paths, last, warn, ledger, CUT) as (_, triage):
        return triage


@contextmanager
def judged(
    paths: Sequence[str],
    last: bool = False,
    warn: Report | None = None,
    ledger: "Ledger | None" = None,
    cut: storage.Cut | None = None,
) -> "Iterator[tuple[duckdb.DuckDBPyConnection, verdict.Triage]]":
    """The event table and the verdict on it, for who has more to ask; arguments as for `triage_paths` and `open_inputs`."""
    loaded = open_inputs(paths, warn, cut)
    try:
        from oomctl.analyzers.triage import survey

        incidents, omitted = survey(loaded.connection, last=last, ledger=ledger)
        yield loaded.connection, verdict.Triage(inputs=loaded.inputs, incidents=incidents, omitted=omitted)
    finally:
        loaded.connection.close()


def _load(target: Target, path: str, report: Report) -> list[verdict.Input]:
    """Read a file, or each of what it has packed; what cannot be read, or only in part, is reported."""
    from oomctl.collectors.artifacts.unpack import members

    found: list[verdict.Input] = []
    whole, empty = True, True
    try:
        if path != STDIN and Path(path).is_dir():
            from oomctl.recordings import load_recording

            return [load_recording(target, path, report)]
        with Rotated(path) as rotated, opened(path) as file:
            target.watch(label(path), file)
            for name, stream, unpackers in members(file, label(path)):
                empty = False
                name, raw = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"), name
                try:
                    if rotated.takes(raw):
                        chain = rotated.keep(raw, stream)
                        found += _load_chain(target, chain, report) if chain is not None else []
                    else:
                        plain = path if stream is file else None
                        found.append(_load_member(target, name, stream, unpackers, plain, report))
                except OomctlError as error:
                    report(error)
                    continue
                if problem := problem_of(unpackers):
                    whole = False
                    report(OomctlError(f"{name}: {problem}; read what came before"))
            for chain in rotated.rest():
                found += _load_chain(target, chain, report)
        if empty:
            report(OomctlError(f"no files in archive ({label(path)})", "give the archive that holds the logs"))
    except OomctlError as error:
        if whole:
            report(error)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        report(unreadable(path, error))
    return found


def _is_log(path: str) -> bool:
    """Whether a file is neither an archive of several, nor a recording."""
    from oomctl.collectors.artifacts.unpack import members

    try:
        with opened(path) as file:
            for name, stream, _ in members(file, label(path)):
                head = stream.peek(text_forms.HEAD_BYTES)
                return name == label(path) and not head.startswith((LIVE_MAGIC, PARQUET_MAGIC))
    except (OomctlError, OSError):
        pass
    return False


def _load_rotated(target: Target, paths: Sequence[str], report: Report) -> list[verdict.Input]:
    """Read a log that was rotated, oldest file first, as one stream, called like the file that is still written."""
    from oomctl.collectors.artifacts.unpack import members

    unpackers: list[Unpacked] = []

    @contextmanager
    def part(name: str) -> Iterator[io.BufferedReader | None]:
        try:
            with opened(name) as file:
                target.watch(label(name), file)
                _, stream, own = next(iter(members(file, label(name))))
                unpackers[:] = own
                yield stream
                if problem := problem_of(own):
                    report(OomctlError(f"{label(name)}: {problem}; read what came before"))
        except OSError as error:
            report(unreadable(name, error))
            yield None

    return _load_chain(target, rotation.Chain(paths, part), report, unpackers)


def _load_chain(
    target: Target, chain: rotation.Chain, report: Report, unpackers: "list[Unpacked] | None" = None
) -> list[verdict.Input]:
    """Read a rotated log, called like its newest file."""
    name = label(chain.names[-1])
    try:
        found = load_log(target, name, io.BufferedReader(chain), [] if unpackers is None else unpackers, report, chain)
    except OomctlError as error:
        report(error)
        return []
    return [structs.replace(found, parts=tuple(map(label, chain.names)))]


def _load_member(
    target: Target,
    name: str,
    stream: io.BufferedReader,
    unpackers: "list[Unpacked]",
    path: str | None,
    report: Report,
) -> verdict.Input:
    """Read one log or recording; `path` where it lies unpacked."""
    if stream.peek(len(LIVE_MAGIC)).startswith(LIVE_MAGIC):
        from oomctl.recordings import load_live_file

        return load_live_file(target, name, stream, 0 if path in (None, STDIN) else Path(path).stat().st_size, report)
    return (
        load_table(target, name, stream, path, report)
        or load_snapshot_file(target, name, stream, path)
        or load_span_file(target, name, stream, report)
        or load_log(target, name, stream, unpackers, report)
    )
