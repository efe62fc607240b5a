"""From paths to a request trace: a published one, in the form that its content tells, or the requests of an event table."""

import io
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from oomctl.inputs import STDIN, Report, expand, label, opened, unreadable
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Finding, Trace


def open_trace(paths: Sequence[str], report: Report) -> Trace:
    """Read a trace of requests.

    Args:
        paths: Files, archives, globs, folders, or "-": one trace may lie in many files, such as one a session.
        report: Called with each part that could not be read, where others could.

    Raises:
        OomctlError: If there is no request in any.
    """
    from oomctl.analyzers.capacity.traps import with_traps

    with _kept(paths) as files:
        return with_traps(_published(files, report) or _logged(files) or _recorded(files, report))


@contextmanager
def _kept(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The same paths, with a copy in the place of standard input, which can be read once only."""
    if STDIN not in paths:
        yield paths
        return
    with tempfile.TemporaryDirectory(prefix="oomctl-") as folder:
        copy = Path(folder) / "stdin"
        with opened(STDIN) as file, copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        yield [str(copy) if path == STDIN else path for path in paths]


def _logged(paths: Sequence[str]) -> Trace | None:
    """The requests that text logs tell of one by one; None where they tell of none."""
    from oomctl.collectors.artifacts.traces.request_logs import PEEK_BYTES, RequestLogReader

    reader = RequestLogReader()
    for _, stream in _members(paths, []):  # what cannot be read is told by who reads it as an event table
        reader.add(stream, stream.peek(PEEK_BYTES)[:PEEK_BYTES])
    return reader.finish(_name(paths)) if reader.tells else None


def _published(paths: Sequence[str], report: Report) -> Trace | None:
    """A trace in a form that others publish, or None where the first file has no such form."""
    from oomctl.collectors.artifacts.traces import HEAD_BYTES, TraceReader, reader_of

    reader: TraceReader | None = None
    problems: list[OomctlError] = []
    read = 0
    for name, stream in _members(paths, problems):
        head = stream.peek(HEAD_BYTES)
        if reader is None:
            reader = reader_of(head)
            if reader is None:
                return None
        elif not reader.claims(head):
            problems.append(OomctlError(f"not of the form of the files before it ({name})", "give one trace at a time"))
            continue
        try:
            reader.add(stream, name)
            read += 1
        except OomctlError as error:
            problems.append(error)
    if reader is None:
        return None
    if not read:
        raise problems[0]
    for problem in problems:
        report(problem)
    trace = reader.finish(_name(paths))
    if read == 1 or trace.clock == "session":
        return trace
    text = (
        f"{read:,} files are read as one trace, on one clock and with the same hashes: give traces that are not one by one."
    )
    return replace(trace, findings=(Finding("joined_files", read, text), *trace.findings))


def _name(paths: Sequence[str]) -> str:
    return label(paths[0]) if len(paths) == 1 else f"{label(paths[0])} and {len(paths) - 1} more"


def _members(paths: Sequence[str], problems: list[OomctlError]) -> Iterator[tuple[str, io.BufferedReader]]:
    """Every file that the arguments mean, out of what it is packed in; recordings are none."""
    from oomctl.collectors.artifacts.unpack import members

    for path in expand(paths, problems.append):
        if path != STDIN and Path(path).is_dir():
            continue
        try:
            with opened(path) as file:
                for name, stream, unpackers in members(file, label(path)):
                    yield name, stream
                    problems += (
                        OomctlError(f"{name}: {one.problem}; read what came before") for one in unpackers if one.problem
                    )
        except OomctlError as error:
            problems.append(error)
        except OSError as error:
            problems.append(unreadable(path, error))


def _recorded(paths: Sequence[str], report: Report) -> Trace:
    from oomctl.analyzers.capacity.recorded import recorded_trace
    from oomctl.pipeline import open_inputs

    loaded = open_inputs(paths, report)
    try:
        return recorded_trace(loaded.connection, " ".join(one.path for one in loaded.inputs[:3]))
    finally:
        loaded.connection.close()
