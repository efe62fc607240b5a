"""The event table as one wide Parquet file: every kind's columns, of which a row fills only its own kind's.

Nine tenths of the values are NULL because their kind is another. Arrow has one buffer for all of them; DuckDB's own writer
looks at each, which took five times as long as all the rest of an import.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomctl.schemas import ddl
from oomctl.schemas.arrow import events_schema
from oomctl.schemas.events import KINDS

if TYPE_CHECKING:
    import duckdb

ROW_GROUP_ROWS = 40_960
"""One is held whole while it is written, and has a column for each field of every kind."""


def write(path: Path, batches: Iterable[Any], metadata: Mapping[str, str]) -> None:
    """Write an event table.

    Args:
        path: Where to.
        batches: Its rows in their order, as pyarrow's record batches; each of one kind, with its own columns alone.
        metadata: For the file's footer.
    """
    import pyarrow.parquet as pq

    texts, counts = _encoded()
    writer = pq.ParquetWriter(
        path,
        events_schema(),
        compression="zstd",
        store_schema=False,
        # Integers are counters, times and sizes: their differences are small. Texts are few, and often the same.
        use_dictionary=texts,
        column_encoding=dict.fromkeys(counts, "DELTA_BINARY_PACKED"),
    )
    with writer:
        writer.add_key_value_metadata(dict(metadata))
        for group in _groups(batches):
            writer.write_table(_wide(group), row_group_size=ROW_GROUP_ROWS)


def stored(connection: "duckdb.DuckDBPyConnection", order: Sequence[str]) -> Iterator[Any]:
    """The rows of a connection's event table, kind by kind, each ordered by some columns."""
    for kind in sorted(KINDS):
        if connection.execute(f"SELECT 1 FROM {ddl.stored(KINDS[kind])} LIMIT 1").fetchall():
            # Only its own columns are sorted: a sort of wide rows would need ten times the memory.
            yield from connection.sql(ddl.ordered(KINDS[kind], order)).to_arrow_reader(ROW_GROUP_ROWS)


def _groups(batches: Iterable[Any]) -> Iterator[list[Any]]:
    """The same rows in groups of ROW_GROUP_ROWS, the last one shorter: kinds with few rows share one."""
    waiting: list[Any] = []
    room = ROW_GROUP_ROWS
    for batch in batches:
        rest = batch
        while len(rest) >= room:
            yield [*waiting, rest.slice(0, room)]
            rest = rest.slice(room)
            waiting, room = [], ROW_GROUP_ROWS
        if len(rest):
            waiting.append(rest)
            room -= len(rest)
    if waiting:
        yield waiting


def _wide(group: Sequence[Any]) -> Any:
    """A table with the columns of all kinds."""
    import pyarrow as pa

    own = [set(batch.schema.names) for batch in group]
    columns = []
    for field in events_schema():
        pieces: list[Any] = []
        missing = 0
        for batch, names in zip(group, own, strict=True):
            if field.name not in names:
                missing += len(batch)
                continue
            if missing:
                pieces.append(pa.nulls(missing, field.type))
                missing = 0
            pieces.append(batch[field.name])
        if missing:
            pieces.append(pa.nulls(missing, field.type))
        columns.append(pa.chunked_array(pieces, field.type))
    return pa.table(columns, schema=events_schema())


@cache
def _encoded() -> tuple[list[str], list[str]]:
    """Columns as Parquet stores them: those of texts, and those of integers and times."""
    import pyarrow as pa

    texts: list[str] = []
    counts: list[str] = []
    for name, type_ in _leaves(events_schema()):
        if pa.types.is_string(type_):
            texts.append(name)
        elif pa.types.is_integer(type_) or pa.types.is_timestamp(type_):
            counts.append(name)
    return texts, counts


def _leaves(schema: Any) -> Iterator[tuple[str, Any]]:
    """(path, type) of each column as Parquet stores it."""
    import pyarrow as pa

    for field in schema:
        if pa.types.is_struct(field.type):
            yield from ((f"{field.name}.{member.name}", member.type) for member in field.type)
        else:
            yield field.name, field.type
