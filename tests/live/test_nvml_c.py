"""The poller through pynvml's C interface, against a library that a C compiler makes of stand_in_nvml.c."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, pynvml
from tests.live.clock import Time
from oomctl.collectors.live.nvml.poller import NvmlPoller
poller = NvmlPoller(pynvml, {"worker": "w"}, Time())
poller.poll()
assert poller._running.wait(30)
batch = poller.poll()
print(json.dumps([batch.rows, batch.notes]))
"""


def test_a_driver_behind_its_c_interface(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = Path(__file__).with_name("stand_in_nvml.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", source], check=True)
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    rows, notes = json.loads(ran.stdout)
    (device,) = [row["device"] for row in rows if row["kind"] == "device"]
    assert device == {"total_bytes": 1000, "used_bytes": 690, "free_bytes": 300, "reserved_bytes": 10}
    held = {row["process"]["pid"]: row["process"]["used_bytes"] for row in rows if row["kind"] == "process"}
    assert held == {41: 600, 42: None}
    assert notes == [["ok", "nvml answers"]]
