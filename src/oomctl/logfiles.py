"""A log as an input: what no other form claims, read by the engines' log readers."""

import io
import os
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from oomctl import rotation
from oomctl.inputs import Report, label
from oomctl.schemas import storage, verdict
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import Row
from oomctl.target import Target

if TYPE_CHECKING:
    from oomctl.collectors.artifacts.streams import Unpacked

MAX_HOLE_BYTES = 256 << 20
"""Zeros after which what is no file, and may have no end, is given up."""


def load_log(
    target: Target,
    name: str,
    file: io.BufferedReader,
    unpackers: "list[Unpacked]",
    report: Report,
    chain: rotation.Chain | None = None,
) -> verdict.Input:
    """Load a log into the event table.

    Args:
        target: What to load it into.
        name: What to call it.
        file: Its bytes.
        unpackers: What it comes out of.
        report: Called with what could be read only in part.
        chain: The files that it was rotated into, where it was.

    Raises:
        OomctlError: If it holds no text, or an input of that name was read.
    """
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
        elif problem == "empty file" and (damage := problem_of(unpackers)):
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


def problem_of(unpackers: "list[Unpacked]") -> str | None:
    """Why a stream ended early, once it is read; None where it did not."""
    return next((unpacker.problem for unpacker in unpackers if unpacker.problem), None)
