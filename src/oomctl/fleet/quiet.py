"""Worker-hours in which nothing can be found: told from a few columns, without loading the rest, which costs far more.

A file of which anything is unusual (another version, a column or a type that is not ours, damage) is never called quiet:
then all of it is loaded, and what is wrong is told.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from oomctl.analyzers.triage.signs import LOOKED_AT, any_sign
from oomctl.schemas.arrow import events_schema
from oomctl.schemas.events import KINDS
from oomctl.schemas.rows import LAST_US
from oomctl.schemas.version import SCHEMA_VERSION, VERSION_KEY

COMMON = ("ts", "stream", "seq", "node", "kind")
FIELDS = {**LOOKED_AT, "manifest": ("section", "key", "value")}
"""Kind to fields: the signs, and what a finding tells of its worker."""
MOST_ROWS = 1_000_000
"""Of a file that is looked at: its columns are held in memory."""


class Quiet(NamedTuple):
    """An hour that is quiet.

    Attributes:
        rows: Of its own file.
        nodes: Hosts that its rows name.
        manifest: (section, key, value, ts in microseconds, stream, seq) of its manifest's rows.
    """

    rows: int
    nodes: list[str]
    manifest: list[tuple[Any, ...]]


def look(hour: Path, context: Path | None) -> Quiet | None:
    """Look whether an hour is quiet.

    Args:
        hour: Its file.
        context: What its triage needs beside it, if there is anything.

    Returns:
        None where an incident is possible, or anything is in doubt.
    """
    import pyarrow as pa

    tables = [_narrow(path) for path in (hour, context) if path is not None]
    if any(table is None for table in tables):
        return None
    events = pa.concat_tables(tables)
    if any_sign(events):
        return None
    nodes = [node for node in events["node"].unique().to_pylist() if node is not None]
    return Quiet(len(tables[0]), nodes, list(_manifest(events)))


def _narrow(path: Path) -> Any:
    """The columns that are looked at, as pyarrow's table; None where the file is not as this version writes it."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            version = (file.metadata.metadata or {}).get(VERSION_KEY.encode())
            if version != str(SCHEMA_VERSION).encode() or not 0 < file.metadata.num_rows <= MOST_ROWS:
                return None
            if not file.schema_arrow.equals(events_schema()) and not all(map(_declared, file.schema_arrow)):
                return None
            table = file.read(columns=_leaves(), use_threads=False)
    except (pa.ArrowException, OSError):
        return None
    if set(table.column_names) != set(_schema().names):
        return None
    table = table.select(_schema().names)
    if not table.schema.equals(_schema()) or not KINDS.keys() >= set(table["kind"].unique().to_pylist()):
        return None
    told = pc.min_max(table["ts"].cast(pa.int64())).as_py()
    return table if told["min"] is None or 0 <= told["min"] <= told["max"] <= LAST_US else None


def _declared(field: Any) -> bool:
    """Whether a file's column is one of ours; an older oomctl may have written fewer fields of a kind."""
    import pyarrow as pa

    place = events_schema().get_field_index(field.name)
    wanted = events_schema().field(place).type if place >= 0 else None
    if wanted is None or not pa.types.is_struct(wanted) or not pa.types.is_struct(field.type):
        return bool(field.type == wanted)
    return all(member in list(wanted) for member in field.type)


def _manifest(events: Any) -> Iterator[tuple[Any, ...]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    own = events.filter(pc.equal(events["kind"], "manifest"))
    fields = (pc.struct_field(own["manifest"], name) for name in FIELDS["manifest"])
    columns = (*fields, own["ts"].cast(pa.int64()), own["stream"], own["seq"])
    yield from zip(*(column.to_pylist() for column in columns), strict=True)


@cache
def _leaves() -> list[str]:
    return [*COMMON, *(f"{kind}.{field}" for kind, fields in FIELDS.items() for field in fields)]


@cache
def _schema() -> Any:
    """Of what is looked at."""
    import pyarrow as pa

    return pa.schema(
        pa.field(field.name, pa.struct([field.type.field(name) for name in FIELDS[field.name]]))
        if field.name in FIELDS
        else field
        for field in events_schema()
        if field.name in COMMON or FIELDS.get(field.name)
    )
