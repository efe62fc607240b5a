"""The event table as one wide Parquet file: every kind's columns, of which a row fills only its own kind's.

Nine tenths of the values are NULL because their kind is another. Arrow has one buffer for all of them; DuckDB's own writer
looks at each, which took five times as long as all the rest of an import.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomctl.schemas import ddl
from oomctl.schemas.declare import Kind
from oomctl.schemas.events import KINDS

if TYPE_CHECKING:
    import duckdb

ROW_GROUP_ROWS = 40_960
"""One is held whole while it is written, and has a column for each field of every kind."""
Source = Callable[[Kind], str]
"""What stands behind FROM for the rows of a kind: all that are stored, or some of them."""


def write(
    connection: "duckdb.DuckDBPyConnection",
    path: Path,
    order: Sequence[str],
    metadata: Mapping[str, str],
    source: Source = ddl.stored,
) -> None:
    """Write the event table, kind by kind.

    Args:
        connection: From `storage.connect`.
        path: Where to.
        order: Columns by which the rows of one kind are ordered.
        metadata: For the file's footer.
        source: Which rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = connection.sql(f"SELECT * FROM {ddl.TABLE} LIMIT 0").to_arrow_table().schema
    leaves = list(_leaves(schema))
    writer = pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        store_schema=False,
        # Integers are counters, times and sizes: their differences are small. Texts are few, and often the same.
        use_dictionary=[name for name, type_ in leaves if pa.types.is_string(type_)],
        column_encoding={name: "DELTA_BINARY_PACKED" for name, type_ in leaves if _counts(type_)},
    )
    with writer:
        writer.add_key_value_metadata(dict(metadata))
        for group in _groups(_wide(connection, schema, order, source)):
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)


def _wide(connection: "duckdb.DuckDBPyConnection", schema: Any, order: Sequence[str], source: Source) -> Iterator[Any]:
    """Batches of rows, with the columns of all kinds."""
    import pyarrow as pa

    for kind in sorted(KINDS):
        if not connection.execute(f"SELECT 1 FROM {source(KINDS[kind])} LIMIT 1").fetchall():
            continue
        # Only its own columns are sorted: a sort of wide rows would need ten times the memory.
        for batch in connection.sql(ddl.ordered(KINDS[kind], order, source(KINDS[kind]))).to_arrow_reader(ROW_GROUP_ROWS):
            own = set(batch.schema.names)
            columns = [batch[field.name] if field.name in own else pa.nulls(len(batch), field.type) for field in schema]
            yield pa.record_batch(columns, schema=schema)


def _groups(batches: Iterator[Any]) -> Iterator[Any]:
    """The same rows in tables of ROW_GROUP_ROWS, the last one shorter: kinds with few rows share one."""
    import pyarrow as pa

    waiting: list[Any] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        while rows >= ROW_GROUP_ROWS:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, ROW_GROUP_ROWS)
            rest = table.slice(ROW_GROUP_ROWS)
            waiting, rows = rest.to_batches(), len(rest)
    if rows:
        yield pa.Table.from_batches(waiting)


def _leaves(schema: Any) -> Iterator[tuple[str, Any]]:
    """(path, type) of each column as Parquet stores it."""
    import pyarrow as pa

    for field in schema:
        if pa.types.is_struct(field.type):
            yield from ((f"{field.name}.{member.name}", member.type) for member in field.type)
        else:
            yield field.name, field.type


def _counts(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(type_) or pa.types.is_timestamp(type_))
