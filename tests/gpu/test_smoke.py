"""benchmarks/gpu_smoke.py on a stand-in for PyTorch: that it runs to its end and judges rightly. No GPU was used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.working_tree import ROOT

STAND_IN = Path(__file__).parent / "stand_in"
PARTS = ["counters", "fragmentation", "graph_capture", "expandable"]


def smoke(out: Path, stand_in: Path) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join((str(stand_in), str(ROOT / "src"), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_smoke", str(out)],
        env=os.environ | {"PYTHONPATH": path}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_all_parts_are_recorded_and_triaged(tmp_path: Path) -> None:
    done = smoke(tmp_path, STAND_IN)
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [[part, "yes"] for part in PARTS], done.stdout
    assert done.returncode == 0
    for part in PARTS[1:]:
        for name in ("incident.parquet", "verdict.json"):
            assert 0 < (tmp_path / part / name).stat().st_size < 1 << 20


@pytest.mark.slow
def test_counters_that_differ_are_told(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    source = (STAND_IN / "torch" / "__init__.py").read_text(encoding="utf-8")
    spoiled = source.replace('"num_ooms": self.ooms,', '"num_ooms": next(_other),').replace(
        "_it = ", "_other = iter(range(99))\n_it = "
    )
    assert spoiled != source
    (package / "__init__.py").write_text(spoiled, encoding="utf-8")
    done = smoke(tmp_path / "out", tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("counters       NO")
