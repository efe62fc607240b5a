"""The capacity experiment on a real vLLM: all ten steps, a repeated run, memory first, and a leak that was planted.

The load is aiperf's where that is installed (OOMCTL_AIPERF, or on PATH), else that of its stand-in.
"""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from oomctl.experiment.load.aiperf import EXECUTABLE, find
from oomctl.schemas.errors import OomctlError
from tests.cli.run import oomctl
from tests.engine.leaky import plant
from tests.engine.server import ENVIRONMENT
from tests.experiment.conftest import processes, stand_in

pytestmark = [pytest.mark.slow, pytest.mark.experiment]
LEAK_BYTES = 512 << 10
CLOSE = 0.15


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        find()
    except OomctlError:
        monkeypatch.setenv(EXECUTABLE, str(stand_in(tmp_path)))


def launch(engine: Path, model: Path, *sites: Path, kv_blocks: int = 512, **variables: str) -> str:
    """`vllm serve` on the CPU, with packages beside its own."""
    path = f"{engine / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    told = {**ENVIRONMENT, "PATH": path, "PYTHONPATH": os.pathsep.join(map(str, sites)), "OOMCTL_RING_RECORDS": "4096"}
    words = [
        str(engine / "bin" / "vllm"), "serve", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1",
        "--max-model-len", "1024", "--max-num-seqs", "16", "--block-size", "32", "--enforce-eager",
        "--kv-cache-memory-bytes", str(kv_blocks * 32 * 1024), "--enable-prefix-caching",
    ]  # fmt: skip
    return shlex.join([f"{name}={value}" for name, value in (told | variables).items()] + words)


def experiment(folder: Path, command: str, *words: str) -> dict[str, Any]:
    arguments = ("capacity", "experiment", "--launch", command, "-o", str(folder), "--json", *words)
    result = oomctl(*arguments, timeout_s=3600)
    sys.stderr.write(result.err)
    assert result.code == 0, result.err
    assert processes(str(folder)) == []
    return dict(json.loads(result.out))


def test_ten_steps_and_again(load: None, engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> None:
    command = launch(engine, model, agent_site)
    words = ("--try", "10s", "--steady", "60s", "--slo", "ttft=3s,tpot=400ms")
    first = experiment(tmp_path / "a", command, *words)
    assert [step["number"] for step in first["steps"]] == list(range(1, 11))
    assert {step["status"] for step in first["steps"]} <= {"passed", "failed"}, first["steps"]
    assert all(step["evidence"] for step in first["steps"])
    assert first["steps"][2]["figures"]["off_blocks"] == 0, "the ledger knows this pool to the block"
    assert first["point"]["breaks_first"] == "slo"
    second = experiment(tmp_path / "b", command, *words)
    assert second["point"]["rate_per_s"] == pytest.approx(first["point"]["rate_per_s"], rel=CLOSE)


def test_memory_first(load: None, engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> None:
    # 40 blocks of 32 tokens hold one request of the longest kind and hardly anything beside it.
    command = launch(engine, model, agent_site, kv_blocks=40)
    found = experiment(tmp_path / "a", command, "--try", "10s", "--steady", "30s", "--slo", "ttft=60s,tpot=60s")
    assert found["point"]["breaks_first"] == "kv_blocks"


def test_a_planted_leak_is_found(load: None, engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> None:
    site = plant(tmp_path / "leaky")
    command = launch(engine, model, agent_site, site, LEAK_BYTES=str(LEAK_BYTES))
    found = experiment(tmp_path / "a", command, "--try", "10s", "--steady", "120s", "--slo", "ttft=60s,tpot=60s")
    steady = found["steps"][7]
    assert steady["status"] == "failed", steady["reason"]
    leak = next(each for each in steady["leaks"] if each["grows"] and "core" in each["whose"])
    assert leak["low_bytes_per_request"] < LEAK_BYTES < leak["high_bytes_per_request"]
