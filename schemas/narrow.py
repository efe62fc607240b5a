"""Rows of one kind out of a Parquet file of ours, as columns of Arrow: without DuckDB, which takes longer to load.

The table is sorted by kind, so a row group's statistics tell whether it has to be read, and most hold one kind, one stream
and one device. Others are cut where these change.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from oomctl.schemas.errors import OomctlError
from oomctl.schemas.version import VERSION_KEY, check_version

_KEYS = ("kind", "stream", "device_id")
_Key = tuple[str, str, int | None]
Part = tuple[str, int | None, dict[str, Any]]
"""(stream, device, column by name); a column that the file lacks has NULL in each row."""


class Rows:
    """A file of ours.

    Args:
        path: Where it lies.
        name: What to call it in errors.

    Raises:
        OomctlError: If it is not Parquet, not ours, or of a newer version.
    """

    def __init__(self, path: Path, name: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._name = name
        self._errors = (pa.ArrowException, OSError, ValueError)
        try:
            schema = pq.ParquetFile(path).metadata.schema
            self._places = {schema.column(n).path: n for n in range(len(schema))}
            texts = [path for path, n in self._places.items() if schema.column(n).physical_type == "BYTE_ARRAY"]
            self._file = pq.ParquetFile(path, read_dictionary=texts)
        except self._errors as error:
            raise self._damaged(error) from error
        version = (self._file.metadata.metadata or {}).get(VERSION_KEY.encode())
        check_version(version.decode("utf-8", "replace") if version is not None else None, name)
        if missing := [key for key in _KEYS if key not in self._places]:
            raise OomctlError(f"not an event table of oomctl: no column {missing[0]!r} ({name})")
        self._runs: dict[int, list[tuple[_Key, int]]] = {}

    def of(self, kind: str, columns: Sequence[str]) -> Iterator[Part]:
        """The rows of a kind, in their order, in parts of one stream and device each.

        Args:
            kind: Which.
            columns: Common ones by their name, the kind's own behind its name: "alloc.size_bytes".
        """
        try:
            for number in range(self._file.metadata.num_row_groups):
                yield from self._group(number, kind, columns)
        except self._errors as error:
            raise self._damaged(error) from error

    def _group(self, number: int, kind: str, columns: Sequence[str]) -> Iterator[Part]:
        kinds = self._range(number, "kind")
        if kinds is not None and not kinds[0] <= kind <= kinds[1]:
            return
        runs = self._runs_of(number)
        if not any(key[0] == kind for key, _ in runs):
            return
        import pyarrow as pa

        # Without threads: they would double the time that it takes of all processors.
        table = self._file.read_row_group(number, [c for c in columns if c in self._places], use_threads=False)
        flat = {name: _column(table, name) if name in self._places else pa.nulls(len(table)) for name in columns}
        at = 0
        for (found, stream, device), length in runs:
            if found == kind:
                yield stream, device, {name: column.slice(at, length) for name, column in flat.items()}
            at += length

    def _runs_of(self, number: int) -> list[tuple[_Key, int]]:
        """What follows what in a row group, with the count of rows."""
        if number not in self._runs:
            ranges = [self._range(number, key) for key in _KEYS]
            told = [found[0] for found in ranges if found is not None and found[0] == found[1]]
            if len(told) == len(_KEYS):
                self._runs[number] = [((told[0], told[1], told[2]), self._file.metadata.row_group(number).num_rows)]
            else:
                table = self._file.read_row_group(number, list(_KEYS), use_threads=False)
                keys = zip(*(values(_column(table, key)) for key in _KEYS), strict=True)
                self._runs[number] = [(key, sum(1 for _ in rows)) for key, rows in groupby(keys)]
        return self._runs[number]

    def _range(self, number: int, key: str) -> tuple[Any, Any] | None:
        """The least and largest value of a row group; None where that is not told, or some rows have none."""
        found = self._file.metadata.row_group(number).column(self._places[key]).statistics
        return (found.min, found.max) if found is not None and found.has_min_max and found.null_count == 0 else None

    def _damaged(self, error: Exception) -> OomctlError:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        return OomctlError(f"cannot read as Parquet ({self._name}): {reason}", "the file is damaged: import it again")


def integers(column: Any, absent: int) -> "array[int]":
    """A column of whole numbers or times."""
    import pyarrow as pa

    if column.null_count == len(column):
        return array("q", [absent]) * len(column)
    plain = column.view(pa.int64())
    if column.null_count:
        return array("q", [absent if value is None else value for value in plain.to_pylist()])
    return array("q", memoryview(plain.buffers()[1])[8 * plain.offset : 8 * (plain.offset + len(plain))].tobytes())


def numbers(column: Any, meaning: Callable[[str], int], absent: int) -> "array[int]":
    """A column of few different texts, each turned once into the number that it means."""
    import pyarrow as pa

    if column.null_count == len(column):
        return array("q", [absent]) * len(column)
    known = pa.array([meaning(told) for told in column.dictionary.to_pylist()], pa.int64())
    return integers(known.take(column.indices), absent)


def meanings(column: Any, meaning: Callable[[str], Any], absent: Any) -> list[Any]:
    """A column of few different texts, each turned once into what it means."""
    if column.null_count == len(column):
        return [absent] * len(column)
    known = [meaning(told) for told in column.dictionary.to_pylist()]
    codes = column.indices
    if codes.null_count:
        return [absent if code is None else known[code] for code in codes.to_pylist()]
    plain = array("i", memoryview(codes.buffers()[1])[4 * codes.offset : 4 * (codes.offset + len(codes))].tobytes())
    return list(map(known.__getitem__, plain))


def values(column: Any) -> Sequence[Any]:
    """A column as it is, None for NULL; whole numbers and texts faster than by Arrow's own way."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return meanings(column, str, None)
    return integers(column, 0) if pa.types.is_int64(column.type) and not column.null_count else list(column.to_pylist())


def _column(table: Any, name: str) -> Any:
    home, _, member = name.partition(".")
    (column,) = table[home].chunks  # one row group's; an empty one has none, and no rows to ask for
    return column.field(member) if member else column
