"""The process that makes Parquet: apart from the recorder, so that its memory is bounded and its death costs nothing.

    python -m oomctl.collectors.recorder.archive pack ROOT
    python -m oomctl.collectors.recorder.archive freeze ROOT ID TARGET SINCE_US
    python -m oomctl.collectors.recorder.archive evict ROOT BYTES OLDEST_US

It prints one JSON object on stdout: what it did, and what was lost by it.
"""

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomctl.collectors.recorder.contents import LASTING, load, segment_rows
from oomctl.collectors.recorder.folder import KEPT, Folder, number_of
from oomctl.schemas import storage
from oomctl.schemas.errors import OomctlError

if TYPE_CHECKING:
    import duckdb

MEMORY = "384MB"
"""Of DuckDB; what does not fit is spilled beside the recording."""
WRITER = "oomctl recorder"
MAX_SEGMENTS = 8
"""Packed at once."""


def pack(root: Path) -> dict[str, Any]:
    """Pack the oldest segments, never the newest, into one hour, then remove them."""
    folder = Folder(root)
    for path in folder.covered():
        path.unlink(missing_ok=True)
    paths = folder.segments()[:-1][:MAX_SEGMENTS]
    if not paths:
        return {"rows": 0}
    problems: list[str] = []
    with _Table(root) as connection, ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in paths]
        rows = storage.load_rows(connection, segment_rows(files, lambda error: problems.append(error.what)))
        if rows:
            target = folder.hours / f"{number_of(paths[0]):08}-{number_of(paths[-1]):08}.parquet"
            storage.write_parquet(connection, target, WRITER)
            _sync(target)
    for path in paths:
        path.unlink(missing_ok=True)
    return {"rows": rows, "problems": problems}


def freeze(root: Path, incident_id: str, target: Path, since_us: int) -> dict[str, Any]:
    """Write the rows since an instant, and those that last, into one file."""
    problems: list[str] = []
    with _Table(root) as connection:
        rows = load(connection, Folder(root), lambda error: problems.append(error.what), since_us)
        storage.write_parquet(connection, target, WRITER, incident_id)
    _sync(target)
    return {"rows": rows, "problems": problems, "bytes": target.stat().st_size}


def evict(root: Path, budget_bytes: int, oldest_us: int) -> dict[str, Any]:
    """Give up hours that are too old, then the oldest until the budget holds, then the oldest incidents.

    What tells how the workers started, and what failed, is kept of each hour.
    """
    folder = Folder(root)
    lost = 0
    incidents = []
    for _, _, path in folder.packed():
        if _used_bytes(root) <= budget_bytes and path.stat().st_mtime_ns // 1000 >= oldest_us:
            continue
        lost += _reduce(folder, path)
    if _used_bytes(root) > budget_bytes:
        kept = folder.hours / KEPT
        lost += _rows_of(kept)
        kept.unlink(missing_ok=True)
    for path in sorted(folder.incidents.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns):
        if _used_bytes(root) <= budget_bytes:
            break
        incidents.append(path.stem)
        path.unlink()
    return {"rows_lost": lost, "incidents_lost": incidents, "used_bytes": _used_bytes(root)}


def _reduce(folder: Folder, path: Path) -> int:
    """Remove an hour, keeping the rows that last; returns how many were lost."""
    kept = folder.hours / KEPT
    with _Table(folder.root) as connection:
        try:
            held = storage.load_parquet(connection, path, where=f"WHERE {LASTING}")
            if kept.exists():
                storage.load_parquet(connection, kept, once=True)
            if held:
                storage.write_parquet(connection, kept, WRITER)
                _sync(kept)
        except OomctlError:
            held = 0  # not to be read: nothing to keep of it
    total = _rows_of(path)
    path.unlink()
    return total - held


def _rows_of(path: Path) -> int:
    import duckdb

    try:
        row = duckdb.execute("SELECT count(*) FROM read_parquet(?)", [str(path)]).fetchone()
    except duckdb.Error:
        return 0
    return int(row[0]) if row else 0


def _used_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


class _Table:
    """An event table that spills to disk instead of growing."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __enter__(self) -> "duckdb.DuckDBPyConnection":
        self._connection = storage.connect()
        self._connection.execute(f"SET memory_limit = '{MEMORY}'")
        self._connection.execute("SET threads = 1")
        self._connection.execute("SET temp_directory = $1", [str(self._root / "hours" / ".spill")])
        return self._connection

    def __exit__(self, *details: object) -> None:
        self._connection.close()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main(words: list[str]) -> int:
    """Run one job; 0 if it was done."""
    os.nice(10)
    task, root, *rest = words
    try:
        if task == "pack":
            done = pack(Path(root))
        elif task == "freeze":
            done = freeze(Path(root), rest[0], Path(rest[1]), int(rest[2]))
        else:
            done = evict(Path(root), int(rest[0]), int(rest[1]))
    except (OomctlError, OSError) as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps(done))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
