"""A worker over two nodes, each with a recorder and a clock of its own: their parts are one incident, under one name."""

import json
import os
import time
from pathlib import Path

import pytest

from oomctl.pipeline import open_inputs, triage_paths
from tests.cli.run import oomctl
from tests.recorder.stand_in import START_US, Time, Worker, recorder

MIDDLE_S = 1300.0
"""Of the bucket of ten minutes that names an incident."""
OOM = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU {rank} has a total capacity of 79.15 GiB of which 1.00 GiB is "
    "free. Including non-PyTorch memory, this process has 78.15 GiB memory in use."
)


def recorded(folder: Path, rank: int, skew_s: float, monkeypatch: pytest.MonkeyPatch, steps_after: int = 0) -> Path:
    """What the recorder of a rank's node leaves; returns its folder."""
    made_ns = START_US * 1000 + int((MIDDLE_S + skew_s) * 1e9)
    stands = Time(now_s=MIDDLE_S, jumped_us=int(skew_s * 1e6))
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: made_ns)
        worker = Worker(folder / f"rings{rank}", "worker" if rank else "core", rank=rank)
        worker.phase("loading", "weights_loaded", "kv_allocated", "ready")
    for step_id in range(20):
        worker.step(step_id, prefill=8192)
    worker.oom(OOM.format(rank=rank))
    for step_id in range(steps_after):
        worker.step(100 + step_id, prefill=8192)
    root = folder / f"rec{rank}"
    beside = recorder(root, folder / f"rings{rank}", stands, os.getpid(), node=f"node{rank}")
    beside.round()
    beside.close()
    return root


@pytest.mark.parametrize("skew_s", [0.0, 40.0, -40.0, 85.0, -85.0])
def test_the_parts_are_one_incident_whatever_the_clocks_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew_s: float
) -> None:
    parts = [recorded(tmp_path, 0, 0.0, monkeypatch), recorded(tmp_path, 1, skew_s, monkeypatch)]
    files = [file for part in parts for file in (part / "incidents").iterdir()]
    assert len(files) == 2
    assert len({file.name for file in files}) == 1, "each node gives it the same name"

    whole = tmp_path / "whole.parquet"
    oomctl("import", *map(str, files), "-o", str(whole))
    for paths in ([str(whole)], list(map(str, files)), list(map(str, parts))):
        (found,) = triage_paths(paths).incidents
        assert (found.verdict, found.oom_class, found.resource) == ("oom", "prefill_spike", "device")
        assert found.cascade is not None and found.cascade.ranks == ("TP0", "TP1")
    sql = "SELECT node, rank, count(*) AS n FROM step GROUP BY ALL ORDER BY ALL"
    asked = json.loads(oomctl("query", str(whole), "-c", sql, "--json").out)
    assert asked == [{"node": "node0", "rank": 0, "n": 20}, {"node": "node1", "rank": 1, "n": 20}]


def test_a_rank_that_went_on_on_its_own_node_begins_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN the one node's rank worked on after its failure WHEN the other fails then THEN they are two."""
    first = recorded(tmp_path, 0, -60.0, monkeypatch, steps_after=20)
    assert len(triage_paths([str(first), str(recorded(tmp_path, 1, 0.0, monkeypatch))]).incidents) == 2


def test_recordings_of_two_workers_of_a_node_are_read_together(tmp_path: Path) -> None:
    """GIVEN two recorders on one node, one of which was started again WHEN both are read THEN each row is there once."""
    roots = {tmp_path / "a": os.getpid(), tmp_path / "b": os.getppid()}
    for root, pid in (*roots.items(), next(iter(roots.items()))):
        beside = recorder(root, None, Time(), pid)
        beside.round()
        beside.close()
    loaded = open_inputs([str(root) for root in roots], lambda problem: None)
    sql = (
        "SELECT stream, min(seq) = 1 AND max(seq) = count(*) AND count(*) = count(DISTINCT seq) FROM events GROUP BY stream"
    )
    with loaded.connection as connection:
        whole = dict(connection.execute(sql).fetchall())
    assert all(whole.values()), whole
    assert sorted(stream.rpartition("/")[2] for stream in whole) == ["host", "host", "recorder", "recorder"]
