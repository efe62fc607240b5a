"""From paths to a request trace: a published one, in the form that its content tells, or the requests of an event table."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from oomctl.inputs import STDIN, Report, expand, label, opened, unreadable
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Trace


def open_trace(paths: Sequence[str], report: Report) -> Trace:
    """Read a trace of requests.

    Args:
        paths: Files, archives, globs, folders, or "-": one trace may lie in many files, such as one a session.
        report: Called with each part that could not be read, where others could.

    Raises:
        OomctlError: If there is no request in any.
    """
    from oomctl.analyzers.capacity.traps import with_traps

    return with_traps(_published(paths, report) or _recorded(paths, report))


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
    return reader.finish(label(paths[0]) if len(paths) == 1 else f"{label(paths[0])} and {len(paths) - 1} more")


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
