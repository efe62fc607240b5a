"""The table of findings: a Parquet file per folder of units, in the same partitions as the recordings.

A file is written whole, from what it held and what is new: so whatever is run again, or ends halfway, no finding is there
twice, and none of a unit that is gone from the store is lost.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oomctl.fleet.judge import Finding
from oomctl.fleet.store import Store
from oomctl.fleet.units import Unit
from oomctl.schemas import fleet, storage
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.partitions import FINDINGS, KEYS, UNKNOWN

BATCH = 4096
"""Rows that are put into a table at once."""


class Findings:
    """A table.

    Args:
        root: The folder, or a URL.
    """

    def __init__(self, root: str) -> None:
        self.store = Store(root)
        self._there = {entry.path for entry in self.store.entries()}

    def tables(self) -> Iterator[Any]:
        """All of it, as pyarrow's tables.

        Raises:
            OomctlError: If there is none.
        """
        paths = sorted(path for path in self._there if path.rpartition("/")[2].startswith(FINDINGS))
        if not paths:
            raise OomctlError(
                f"no findings ({self.store.root})", "give the folder that `oomctl triage --engine local --findings` wrote"
            )
        yield from (read(self.store, path) for path in paths)

    def of(self, units: Sequence[Unit]) -> list[Finding]:
        """What is known of the units of a folder, and of others that lay there."""
        path = _path(units[0])
        return read(self.store, path).to_pylist() if path in self._there else []

    def write(self, units: Sequence[Unit], found: Sequence[Finding]) -> None:
        """Replace what is known of a folder."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        ordered = sorted(found, key=lambda row: str(row["unit"]))
        table = pa.Table.from_pylist(ordered, schema=fleet.findings_schema())
        with tempfile.TemporaryDirectory(prefix="oomctl-") as folder:
            scratch = Path(folder) / "findings.parquet"
            with pq.ParquetWriter(scratch, table.schema, compression="zstd", store_schema=False) as writer:
                writer.add_key_value_metadata({fleet.FINDINGS_KEY: str(fleet.FINDINGS_VERSION)})
                writer.write_table(table)
            self.store.put(_path(units[0]), scratch)


def read(store: Store, path: str) -> Any:
    """A file of findings, as pyarrow's table; fields that an older version did not write are NULL.

    Raises:
        OomctlError: If it is none, or of a newer version.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = fleet.findings_schema()
    with tempfile.TemporaryDirectory(prefix="oomctl-") as folder:
        copy = Path(folder) / "findings.parquet"
        if not store.fetch(path, copy):
            return schema.empty_table()
        try:
            file = pq.ParquetFile(copy)
            table, version = file.read(), (file.metadata.metadata or {}).get(fleet.FINDINGS_KEY.encode())
        except (pa.ArrowException, OSError) as error:
            raise OomctlError(f"cannot read as Parquet ({store.url(path)})", "remove it, and triage again") from error
    if version is None or not version.isdigit():
        raise OomctlError(f"no findings ({store.url(path)})", "give the folder that `oomctl triage --findings` wrote")
    if int(version) > fleet.FINDINGS_VERSION:
        raise OomctlError(f"findings of a newer version ({store.url(path)})", "upgrade oomctl: pip install -U oomctl")
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


class Asked:
    """Findings to be asked about: the table `finding` in a DuckDB of its own.

    Attributes:
        connection: Holds it.
    """

    def __init__(self) -> None:
        self.connection = storage.connect()
        self.connection.execute(fleet.create_findings())
        self._waiting: list[Finding] = []

    def add(self, found: Sequence[Finding]) -> None:
        """Take in some rows."""
        self._waiting += found
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Put what waits into the table."""
        import pyarrow as pa

        self.add_table(pa.Table.from_pylist(self._waiting, schema=fleet.findings_schema()))
        self._waiting.clear()

    def add_table(self, table: Any) -> None:
        """Take in pyarrow's table of some rows."""
        self.connection.register("batch", table)
        self.connection.execute("INSERT INTO finding SELECT * FROM batch")
        self.connection.unregister("batch")


def _path(unit: Unit) -> str:
    """Where the findings of a unit's folder lie: its own partitions, where it has some."""
    place = unit.place
    folder = place.folder if place is not None else "/".join(f"{key}={UNKNOWN}" for key in KEYS)
    return f"{folder}/{FINDINGS}{hashlib.sha256(unit.folder.encode()).hexdigest()[:8]}.parquet"
