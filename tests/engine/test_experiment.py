"""The capacity experiment on a real vLLM: all ten steps, a repeated run, memory first, and a leak that was planted.

The load is aiperf's where that is installed (OOMCTL_AIPERF, or on PATH), else that of its stand-in.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oomctl.experiment.folder import read_experiment
from oomctl.experiment.load.aiperf import EXECUTABLE, find
from oomctl.experiment.settings import Settings
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.experiment import Experiment
from oomctl.schemas.replay import Slo
from tests.cli.run import oomctl
from tests.engine.planted import plant
from tests.engine.server import ENVIRONMENT
from tests.experiment.conftest import processes, stand_in
from tests.experiment.test_experiment import went_on

pytestmark = [pytest.mark.slow, pytest.mark.experiment]
LEAK_BYTES = 512 << 10
CLOSE = 0.15


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        find()
    except OomctlError:
        monkeypatch.setenv(EXECUTABLE, str(stand_in(tmp_path)))


def launch(engine: Path, model: Path, *sites: Path, kv_blocks: int = 512, sequences: int = 16, **variables: str) -> str:
    """`vllm serve` on the CPU, with packages beside its own."""
    path = f"{engine / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    told = {**ENVIRONMENT, "PATH": path, "PYTHONPATH": os.pathsep.join(map(str, sites)), "OOMCTL_RING_RECORDS": "4096"}
    words = [
        str(engine / "bin" / "vllm"), "serve", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1",
        "--max-model-len", "1024", "--max-num-seqs", str(sequences), "--block-size", "32", "--enforce-eager",
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
    # Steps of 100 ms: what others do on this machine counts little then.
    site = plant(tmp_path / "planted")
    command = launch(engine, model, agent_site, site, sequences=8, STEP_S="0.1")
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 0, "input_length": 16 + 12 * n, "output_length": 4 + n, "hash_ids": []} for n in range(17)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ("--try", "10s", "--steady", "60s", "--slo", "ttft=3s,tpot=400ms", "--cohorts", str(trace))
    first = experiment(tmp_path / "a", command, *words)
    assert [step["number"] for step in first["steps"]] == list(range(1, 11))
    assert {step["status"] for step in first["steps"]} == {"passed"}, first["steps"]
    assert all(step["evidence"] for step in first["steps"])
    assert first["steps"][2]["figures"]["off_blocks"] == 0, "the ledger knows this pool to the block"
    assert first["point"]["breaks_first"] == "slo"
    # All slots are taken while blocks are free, and tokens come as fast as ever.
    assert (first["point"]["advice"]["setting"], first["point"]["advice"]["change"]) == ("--max-num-seqs", "raise")
    second = experiment(tmp_path / "b", command, *words)
    assert second["point"]["rate_per_s"] == pytest.approx(first["point"]["rate_per_s"], rel=CLOSE)
    compared = oomctl("capacity", "experiment", "diff", str(tmp_path / "a"), str(tmp_path / "b"), "--json")
    assert json.loads(compared.out)["same_rate"] is True


@contextmanager
def ending(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """An experiment that does not outlive its test."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def name_of(pid: int) -> str:
    """As the kernel has it: 15 characters."""
    return Path(f"/proc/{pid}/comm").read_text("utf-8")


def one_step(folder: Path, number: int, rate_per_s: float, slo: Slo, command: str, **asked: float) -> Experiment:
    """One step of an experiment whose ramps kept a rate."""
    settings = Settings(root=folder, launch=command, url=None, slo=slo, try_s=10.0, **asked)  # type: ignore[arg-type]
    found = went_on(settings, number, rate_per_s)
    assert processes(str(folder)) == []
    return found


def test_memory_first(load: None, engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> None:
    # 40 blocks of 32 tokens hold two requests of the longest kind and hardly anything beside them.
    command = launch(engine, model, agent_site, kv_blocks=40)
    found = one_step(tmp_path / "a", 10, 4.0, Slo(ttft_s=20.0, tpot_s=5.0), command)
    assert found.point is not None, found.steps[-1].reason
    assert found.point.breaks_first == "kv_blocks"
    assert found.point.advice is not None
    assert (found.point.advice.setting, found.point.advice.change) == ("--kv-cache-memory-bytes", "raise")
    stopped = [one.stopped_in_s for one in found.steps[-1].tries if one.stopped_in_s is not None]
    assert max(stopped, default=0.0) < 2.0


def test_a_planted_leak_is_found(load: None, engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> None:
    site = plant(tmp_path / "planted")
    command = launch(engine, model, agent_site, site, LEAK_BYTES=str(LEAK_BYTES))
    found = one_step(tmp_path / "a", 8, 3.0, Slo(ttft_s=20.0, tpot_s=5.0), command, steady_s=120.0)
    steady = found.steps[-1]
    assert steady.status == "failed", steady.reason
    # The core's, by its agent or by the host; its allocator maps a page more for each.
    leak = max((each for each in steady.leaks if each.grows), key=lambda each: each.slope_bytes_per_request)
    assert leak.low_bytes_per_request is not None
    assert leak.high_bytes_per_request is not None
    assert leak.low_bytes_per_request < LEAK_BYTES + 4096
    assert leak.high_bytes_per_request > LEAK_BYTES
    assert "bytes a request" in steady.reason


def test_ctrl_c_then_a_death_in_step_5(load: None, engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> None:
    folder, said = tmp_path / "a", tmp_path / "said"
    words = ["capacity", "experiment", "--launch", launch(engine, model, agent_site), "-o", str(folder), "--try", "8s",
             "--steady", "30s", "--slo", "ttft=3s,tpot=400ms", "--max-rate", "2"]  # fmt: skip

    def begun(line: str) -> "subprocess.Popen[bytes]":
        """The experiment, once it says this."""
        with said.open("wb") as file:
            process = subprocess.Popen([sys.executable, "-m", "oomctl", *words], stdout=file, stderr=file)
        deadline_s = time.monotonic() + 1200
        while line not in said.read_text("utf-8", "replace"):
            assert process.poll() is None and time.monotonic() < deadline_s, said.read_text("utf-8", "replace")
            time.sleep(0.2)
        return process

    with ending(begun("step 2: ")) as process:
        assert any(name.startswith("VLLM::EngineCor") for name in map(name_of, processes(str(folder))))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert processes(str(folder)) == []
    assert [step.number for step in read_experiment(folder).steps] == [1]

    with ending(begun("step 5: ")) as process:
        core = next(pid for pid in processes(str(folder)) if name_of(pid).startswith("VLLM::EngineCor"))
        os.kill(core, signal.SIGKILL)
        assert process.wait(300) == 0, said.read_text("utf-8", "replace")
    assert processes(str(folder)) == []
    found = read_experiment(folder)
    assert [(step.number, step.status) for step in found.steps][-1] == (5, "aborted")
    (incident,) = found.incidents
    assert incident.report is not None
    assert (folder / incident.report).stat().st_size
    assert (folder / "report.html").stat().st_size
