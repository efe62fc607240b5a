"""What `oomctl top` sees of a worker whose agent writes rings: all of it, though a recorder keeps most as slots."""

import os
from pathlib import Path

from oomctl.analyzers.picture.state import Picture
from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.watching import Watching
from tests.recorder.stand_in import Worker


def test_rings_are_seen_and_left_as_they_are(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "rings")
    worker.phase("ready")
    worker.step(1, used=300)
    before = sorted(path.name for path in (tmp_path / "rings").iterdir())
    watching, picture = Watching(os.getpid(), tmp_path / "rings", None, None, Clock()), Picture()
    try:
        for row in watching.rows():
            picture.take(row)
    finally:
        watching.close()
    (seen,) = picture.workers.values()
    assert (seen.phase, seen.running) == ("ready", 8)
    assert seen.pools["TP0"].figures["used_blocks"] == 300
    assert sorted(path.name for path in (tmp_path / "rings").iterdir()) == before
