"""A snapshot through Parquet and back: the same columns, from whatever order its rows lie in."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oomctl.analyzers.allocator.imported import imported
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.collectors.artifacts.torch_snapshot.table import load_events
from oomctl.schemas import storage, wide
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.heap import Snapshot
from oomctl.schemas.version import VERSION_KEY
from tests.allocator.causes import PAIRS
from tests.allocator.heaps import MIB, block, document, free, segment
from tests.allocator.layouts import LAYOUTS, laid_out


def _read(layout: str, name: str) -> Snapshot:
    told = laid_out(PAIRS["private_pools"][0]().run.document(), layout)
    return read_document(told, name, 1 << 30)


def _kept(folder: Path, snapshots: Sequence[Snapshot]) -> Path:
    connection = storage.connect()
    try:
        for rank, snapshot in enumerate(snapshots):
            load_events(connection, snapshot, rank)
        storage.write_parquet(connection, folder / "kept.parquet", "test")
    finally:
        connection.close()
    return folder / "kept.parquet"


def _sorted(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Addresses tell where a block's stack was found: an import keeps it, a file may only tell it in its history."""
    return sorted((replace(one, segments=[], problems=[]) for one in snapshots), key=lambda one: one.name)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Snapshot], Path]:
    snapshots = [_read(layout, f"rank_{n}") for n, layout in enumerate(LAYOUTS)]
    two = [segment(1 << 40, block(MIB), free(MIB)), segment(1 << 40, block(MIB), device=1)]
    event = {"action": "alloc", "addr": 1 << 40, "size": MIB, "stream": 0, "frames": []}
    traces = [[event], [{**event, "time_us": 7}, {"action": "oom", "size": 512, "device_free": 0, "stream": 2}]]
    snapshots.append(read_document({**document(*two), "device_traces": traces}, "two devices", 1 << 20))
    return snapshots, _kept(tmp_path_factory.mktemp("kept"), snapshots)


def test_what_was_kept_is_what_was_read(many: tuple[list[Snapshot], Path]) -> None:
    snapshots, path = many
    found = list(imported(path, "kept"))
    assert _sorted(found) == _sorted(snapshots)
    for one, other in zip(sorted(snapshots, key=lambda each: each.name), found, strict=True):
        assert [replace(s, blocks=()) for s in other.segments] == [replace(s, blocks=()) for s in one.segments]
        blocks = [(b.address, b.size_bytes, b.requested_bytes, b.state) for s in one.segments for b in s.blocks]
        assert [(b.address, b.size_bytes, b.requested_bytes, b.state) for s in other.segments for b in s.blocks] == blocks


def test_rows_in_another_order_are_the_same_histories(many: tuple[list[Snapshot], Path], tmp_path: Path) -> None:
    snapshots, path = many
    table = pq.ParquetFile(path).read()
    turned: list[Any] = []
    for kind in ("alloc", "block", "segment", "stack", "manifest"):
        rows = [n for n, value in enumerate(table["kind"].to_pylist()) if value == kind]
        turned.append(table.take(pa.array(rows[::-1] if kind == "alloc" else rows)))
    writer = pq.ParquetWriter(tmp_path / "turned.parquet", table.schema)
    with writer:
        writer.add_key_value_metadata({VERSION_KEY: "0"})
        writer.write_table(pa.concat_tables(turned), row_group_size=50)
    assert _sorted(list(imported(tmp_path / "turned.parquet", "turned"))) == _sorted(snapshots)


def test_row_groups_are_full_but_for_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(wide, "ROW_GROUP_ROWS", 16)
    file = pq.ParquetFile(_kept(tmp_path, [_read("newest", "a"), _read("2.0", "b")])).metadata
    rows = [file.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert len(rows) > 3 and set(rows[:-1]) == {16} and 0 < rows[-1] <= 16
    assert len(list(imported(tmp_path / "kept.parquet", "kept"))) == 2


def test_what_is_no_file_of_ours_is_one_error(many: tuple[list[Snapshot], Path], tmp_path: Path) -> None:
    data = many[1].read_bytes()
    for end in range(4, len(data), len(data) // 50):
        (tmp_path / "cut.parquet").write_bytes(data[:end])
        with pytest.raises(OomctlError) as caught:
            list(imported(tmp_path / "cut.parquet", "cut"))
        assert "\n" not in caught.value.what
    pq.write_table(pa.table({"kind": ["alloc"]}), tmp_path / "other.parquet")
    with pytest.raises(OomctlError, match="not written by oomctl"):
        list(imported(tmp_path / "other.parquet", "other"))
