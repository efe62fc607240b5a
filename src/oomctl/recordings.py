"""Recordings as inputs: the folder that `oomctl attach` writes, also while it is written, and single live files of it."""

import io
from pathlib import Path

from oomctl.collectors.recorder.contents import load, odd_rows, streams_of
from oomctl.collectors.recorder.folder import Folder
from oomctl.collectors.recorder.live_reader import LiveReader
from oomctl.inputs import Report, label
from oomctl.schemas import storage, verdict
from oomctl.schemas.errors import OomctlError
from oomctl.target import Target


def load_recording(target: Target, path: str, report: Report) -> verdict.Input:
    """Load a recording's folder.

    Args:
        target: What to load it into.
        path: The folder.
        report: Called with what could not be read, or only in part.

    Raises:
        OomctlError: If it holds no row, or one of a stream that was read from another input.
    """
    folder = Folder(Path(path))
    if target.streams:
        target.refuse_known(streams_of(folder), label(path))
    rows = load(target.connection, folder, report, cut=target.cut)
    if not rows:
        raise OomctlError(f"a recording without a row ({label(path)})", "wait until something was recorded")
    size = sum(file.stat().st_size for file in (*folder.live.iterdir(), *folder.hours.glob("*.parquet")))
    engines = target.engines(target.loaded())
    return verdict.Input(path=label(path), format="live", bytes=size, rows=rows, engines=engines)


def load_live_file(target: Target, name: str, file: io.BufferedReader, size: int, report: Report) -> verdict.Input:
    """Load one live file of a recording.

    Raises:
        OomctlError: If it is damaged at its beginning, or holds no row.
    """
    reader = LiveReader(file, name)
    twice: set[str] = set()
    rows = storage.load_rows(target.connection, target.fresh(reader.rows(), twice))
    if reader.torn_bytes:
        report(OomctlError(f"{name}: {reader.torn_bytes} bytes at its end are no whole frame; read what came before"))
    if reader.odd_rows:
        report(odd_rows(name, reader))
    if not rows:
        target.refuse_known(twice, name)
        raise OomctlError(f"a live file without a row ({name})", "give the folder that it lies in")
    target.tell_known(twice, name, report)
    engines = target.engines(target.loaded())
    return verdict.Input(path=name, format="live", bytes=size, rows=rows, engines=engines)
