"""From paths to a verdict: every input becomes rows of one event table, and the analyzers read that table."""

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from oomctl import progress, rotation
from oomctl.inputs import STDIN, Report, expand, label, opened, unreadable
from oomctl.packed import Rotated
from oomctl.schemas import storage, text_forms, verdict
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import Row
from oomctl.schemas.version import PARQUET_MAGIC
from oomctl.snapshots import load_snapshot_file
from oomctl.spans import load_span_file
from oomctl.tables import load_table
from oomctl.target import Target

LIVE_MAGIC = b"OOMCTLL\n"
"""Of a recorder's live files; tested equal to theirs, which a log's reading need not load."""

if TYPE_CHECKING:
    import duckdb

    from oomctl.collectors.artifacts.unpack import Unpacked
    from oomctl.schemas.ledger import Ledger

MAX_HOLE_BYTES = 256 << 20
"""Zeros after which what is no file, and may have no end, is given up."""


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
                if problem := _problem(unpackers):
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
    from oomctl.collectors.artifacts.unpack import Unpacked, members

    unpackers: list[Unpacked] = []

    @contextmanager
    def part(name: str) -> Iterator[io.BufferedReader | None]:
        try:
            with opened(name) as file:
                target.watch(label(name), file)
                _, stream, own = next(iter(members(file, label(name))))
                unpackers[:] = own
                yield stream
                if problem := _problem(own):
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
        found = _load_log(target, name, io.BufferedReader(chain), [] if unpackers is None else unpackers, report, chain)
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
        or _load_log(target, name, stream, unpackers, report)
    )


def _load_log(
    target: Target,
    name: str,
    file: io.BufferedReader,
    unpackers: "list[Unpacked]",
    report: Report,
    chain: rotation.Chain | None = None,
) -> verdict.Input:
    from oomctl.collectors.artifacts.logs import read_log

    target.refuse_known({name}, name)
    hole = _skip_hole(file)
    if hole >= MAX_HOLE_BYTES and not _is_file(file):
        raise OomctlError(f"no text in the first {MAX_HOLE_BYTES >> 20} MiB ({name})", "give the engine's own output")
    reading = read_log(file, name, lambda: any(unpacker.repetitive for unpacker in unpackers))
    rows = storage.load_rows(target.connection, reading.rows if chain is None else _placed(reading.rows, chain))
    if rows:
        target.streams.add(name)
    problem = reading.problem
    if problem is not None:
        if problem == "empty file" and hole:
            problem = "not a text log"
        elif problem == "empty file" and (damage := _problem(unpackers)):
            raise OomctlError(f"{damage} ({name})", "copy the archive again")
        raise OomctlError(
            f"{problem} ({name})", "give the engine's own output, as text, or a file that `oomctl import` wrote"
        )
    if reading.alike:
        report(OomctlError(f"{name}: {reading.alike:,} lines only repeat others; counted, and not looked at"))
    return verdict.Input(
        path=name, format="log", bytes=hole + reading.bytes, lines=reading.lines, rows=rows, engines=reading.engines
    )


def _placed(rows: Iterable[Row], chain: rotation.Chain) -> Iterator[Row]:
    """Rows of lines that say in which of several files they stand, and where."""
    for row in rows:
        if row["kind"] == "log" and row.get("line"):
            file, line = chain.place_of(row["line"])
            row["log"] |= {"file": label(file), "file_line": line}
        yield row


def _skip_hole(file: io.BufferedReader) -> int:
    """Skip the zeros with which a log begins that was truncated while its writer went on: as many as the file has.

    What is no file may have no end.
    """
    skipped = 0
    while (head := file.peek(1)) and (skipped < MAX_HOLE_BYTES or _is_file(file)):
        zeros = len(head) - len(head.lstrip(b"\0"))
        skipped += len(file.read(zeros))
        if zeros < len(head):
            break
    return skipped


def _is_file(file: io.BufferedReader) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:
        return False


def _problem(unpackers: "list[Unpacked]") -> str | None:
    return next((unpacker.problem for unpacker in unpackers if unpacker.problem), None)
