"""Two ledgers side by side."""

from pathlib import Path

import msgspec

from oomctl.analyzers.ledger import Engine, ModelShape, predict
from oomctl.analyzers.ledger.compare import breaches, diff
from oomctl.analyzers.ledger.reconcile import Reconciled
from oomctl.schemas.ledger import Ledger
from tests.cli.run import oomctl
from tests.ledger import configs

DEVICE = 80 * 2**30


def of(folder: Path, **arguments: int) -> Ledger:
    shape = ModelShape.from_config(configs.write(folder, configs.DENSE))
    return predict(shape, msgspec.structs.replace(Engine(), **arguments), DEVICE)


def test_the_entry_that_moved_and_why(tmp_path: Path) -> None:
    found = diff(of(tmp_path), of(tmp_path, tensor_parallel=2))
    assert set(found.settings) == {"tensor_parallel"}
    halved = next(change for change in found.changes if change.owner == "mlp")
    assert halved.grown_bytes == -(halved.before_bytes or 0) // 2
    assert diff(of(tmp_path), of(tmp_path)).changes == []


def test_a_latency_stands_beside_the_memory(tmp_path: Path) -> None:
    before, after = of(tmp_path), of(tmp_path)
    after.latency_us["decode p50"] = 900.0
    assert diff(before, after).latency_us == {"decode p50": (None, 900.0)}


def test_a_build_fails_on_growth_and_on_headroom_and_passes_otherwise(tmp_path: Path) -> None:
    small, large = of(tmp_path, max_requests=64), of(tmp_path, max_requests=1024)
    assert any("activation" in line for line in breaches(small, large, 0.01, None))
    assert breaches(large, small, 0.01, None) == []
    assert breaches(small, large, 100.0, None) == []
    assert "headroom is" in breaches(small, small, 0.01, 79 * 2**30)[0]
    assert breaches(small, small, 0.01, 2**20) == []
    unknown = of(tmp_path, gpu_blocks=64)
    unknown.summary = msgspec.structs.replace(unknown.summary, headroom_gib_per_rank=None)
    assert breaches(unknown, unknown, 0.01, 0) == ["the headroom is not known"]


def test_the_commands(tmp_path: Path) -> None:
    files = []
    for name, requests in (("a.json", 64), ("b.json", 1024)):
        (tmp_path / name).write_bytes(msgspec.json.encode(of(tmp_path, max_requests=requests)))
        files.append(str(tmp_path / name))
    assert "activation" in oomctl("ledger", "diff", *files).out
    assert oomctl("ledger", "diff", files[0], files[0]).out == "no entry differs\n"
    ran = oomctl("ledger", "check", *files)
    assert (ran.code, "activation" in ran.out, ran.err) == (1, True, "")
    assert oomctl("ledger", "check", files[0], files[0], "--min-headroom", "1MiB").code == 0
    oomctl("ledger", "diff", files[0], str(tmp_path / "config.json")).assert_fails(3, "no ledger")


LOG = """\
(Worker_TP0 pid=7) INFO 03-01 10:00:00 [gpu_model_runner.py:4820] Model loading took 0.75 GiB memory and 1.500000 seconds
(Worker_TP1 pid=8) INFO 03-01 10:00:00 [gpu_model_runner.py:4820] Model loading took 0.75 GiB memory and 1.500000 seconds
"""


def test_a_log_beside_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text(LOG)
    ledger = of(tmp_path, tensor_parallel=2)
    (tmp_path / "ledger.json").write_bytes(msgspec.json.encode(ledger))
    ran = oomctl("ledger", "reconcile", str(tmp_path / "ledger.json"), str(tmp_path / "worker.log"), "--json")
    found = msgspec.json.decode(ran.out, type=list[Reconciled])
    assert [(one.rank, one.component, one.line) for one in found] == [(0, "weights", 1), (1, "weights", 2)]
    for one in found:
        assert one.predicted_bytes == ledger.total("weights")
        assert one.remainder_bytes == one.measured_bytes - (ledger.total("weights") or 0)
    text = oomctl("ledger", "reconcile", str(tmp_path / "ledger.json"), str(tmp_path / "worker.log")).out
    assert "0.750 GiB" in text
