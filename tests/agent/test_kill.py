"""What a ring holds after its process was killed."""

import random
import subprocess
import sys
import time
from pathlib import Path

from oomctl.collectors.agent.reader import read_ring, ring_paths
from tests.working_tree import ROOT

WRITER = """
import sys
from pathlib import Path
from tests.agent.rings import make_rings, write_step, write_text
ring = make_rings(Path(sys.argv[1]), capacity=64).mine()
step_id = 0
while True:
    step_id += 1
    write_step(ring, step_id)
    if step_id % 5 == 0:
        write_text(ring, "t" * (step_id % 700))
    if step_id == 100:
        print("writes", flush=True)
"""


def test_a_killed_writer_leaves_whole_records(tmp_path: Path) -> None:
    random.seed(20)
    for turn in range(10):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, cwd=ROOT, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "writes\n"
            time.sleep(random.random() / 50)
            process.kill()
        (path,) = ring_paths(folder)
        header, batch = read_ring(path)
        seqs = [record.seq for record in batch.records]
        assert seqs == list(range(seqs[0], seqs[-1] + 1)), "a hole before the end"
        assert batch.overwritten == seqs[0] - 1
        assert batch.torn <= 1
        assert not header.is_alive()
        assert not header.closed
        for record in batch.records:
            if record.kind.name == "manifest":
                assert not record.cut
                assert set(record.values["value"]) <= {"t"}
