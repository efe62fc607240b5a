"""Event tables as inputs: what `oomctl import` and `oomctl export` wrote, in each of its forms."""

import io

from oomctl.inputs import Report, on_disk
from oomctl.schemas import storage, text_forms, verdict
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.version import PARQUET_MAGIC
from oomctl.target import Target


def load_table(
    target: Target, name: str, stream: io.BufferedReader, path: str | None, report: Report
) -> verdict.Input | None:
    """Load an event table.

    Args:
        target: What to load it into.
        name: What to call it.
        stream: Its bytes.
        path: Where it lies unpacked, if it does.
        report: Called with what could be read only in part.

    Returns:
        None if it is none; nothing was read then.

    Raises:
        OomctlError: If it cannot be read, or holds a stream that was read from another input.
    """
    head = stream.peek(text_forms.HEAD_BYTES)
    if head.startswith(PARQUET_MAGIC):
        return _load_parquet(target, name, stream, path)
    if text_forms.is_jsonl(head):
        return _load_jsonl(target, name, stream, report)
    if text_forms.is_csv(head):
        return _load_csv(target, name, stream, path)
    return None


def _load_parquet(target: Target, name: str, file: io.BufferedReader, path: str | None) -> verdict.Input:
    with on_disk(path, file) as place:
        streams = _streams_in(target, storage.PARQUET, [str(place)])
        target.refuse_known(streams, name)
        rows = storage.load_parquet(target.connection, place, name, cut=target.cut)
        return _loaded(target, name, "parquet", place.stat().st_size, rows, streams)


def _load_csv(target: Target, name: str, file: io.BufferedReader, path: str | None) -> verdict.Input:
    with on_disk(path, file) as place:
        streams = _streams_in(target, *text_forms.csv_source(place, name))
        target.refuse_known(streams, name)
        rows = text_forms.load_csv(target.connection, place, name)
        return _loaded(target, name, "csv", place.stat().st_size, rows, streams)


def _load_jsonl(target: Target, name: str, file: io.BufferedReader, report: Report) -> verdict.Input:
    """Read as it comes, so a stream that is known already shows when others may have been loaded: it alone is left out."""
    from oomctl.collectors.artifacts.streams import Counted

    counted = Counted(file)
    twice: set[str] = set()
    bad: list[int] = []
    told = text_forms.read_jsonl(io.BufferedReader(counted), name, bad.append)
    rows = storage.load_rows(target.connection, target.fresh(told, twice))
    if not rows:
        target.refuse_known(twice, name)
        raise OomctlError(f"a recording without a row ({name})", "export it again, or give the log itself")
    target.tell_known(twice, name, report)
    if bad:
        report(OomctlError(f"{name}: {len(bad)} lines are no rows, the first is line {bad[0]}; read the others"))
    return _loaded(target, name, "jsonl", counted.taken, rows, target.loaded())


def _loaded(target: Target, name: str, form: verdict.InputFormat, size: int, rows: int, streams: set[str]) -> verdict.Input:
    target.streams |= streams
    return verdict.Input(path=name, format=form, bytes=size, rows=rows, engines=target.engines(streams))


def _streams_in(target: Target, source: str, parameters: list[str]) -> set[str]:
    import duckdb

    try:
        found = target.connection.execute(f"SELECT DISTINCT stream FROM {source}", parameters).fetchall()
        return {str(row[0]) for row in found if row[0] is not None}
    except duckdb.Error:
        return set()  # not a recording of ours: loading it says so better
