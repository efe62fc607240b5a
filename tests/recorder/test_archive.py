"""Packing within its memory, whatever an hour holds."""

from pathlib import Path

import pytest

from oomctl.collectors.recorder.archive import MEMORY
from oomctl.schemas import storage

ROWS = 200_000


@pytest.mark.slow
def test_a_busy_hour_is_sorted_within_the_memory(tmp_path: Path) -> None:
    """GIVEN rows of which wide ones would not fit WHEN they are written THEN each kind is there, in order."""
    with storage.connect() as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        connection.execute("SET threads = 1")
        for kind, value in (("step", "i AS step_id"), ("kv_pool", "i AS used_blocks")):
            connection.execute(
                f"INSERT INTO stored.{kind} BY NAME SELECT make_timestamp(i) AS ts, 'r' AS stream, i AS seq, "
                f"'w' AS worker, 'agent' AS source, {value} FROM range({ROWS}) AS t(i) ORDER BY hash(i)"
            )
        storage.write_parquet(connection, tmp_path / "hour.parquet", "test")
        found = connection.execute(
            "SELECT kind, count(*), bool_and(seq > before) FROM (SELECT kind, seq, lag(seq, 1, -1) OVER ("
            "PARTITION BY kind ORDER BY file_row_number) AS before FROM read_parquet(?, file_row_number = true)) "
            "GROUP BY kind ORDER BY kind",
            [str(tmp_path / "hour.parquet")],
        ).fetchall()
    assert found == [("kv_pool", ROWS, True), ("step", ROWS, True)]
