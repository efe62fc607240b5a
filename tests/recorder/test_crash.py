"""Recorder and worker killed with SIGKILL at random instants: what is left is whole, and what is lost is told."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.working_tree import ROOT


def crash(folder: Path, trials: int, seed: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.recorder.crash", str(folder), str(trials), str(seed)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("trials", "seed"), [(20, 1), pytest.param(200, 2, marks=pytest.mark.slow)])
def test_kills_at_random_instants(tmp_path: Path, trials: int, seed: int) -> None:
    found = crash(tmp_path, trials, seed)
    assert found["rings"] > trials / 2
    assert found["kept"] > 10 * trials
    assert found["kept"] + found["lost"] == found["made"]
