"""Two ledgers side by side."""

from pathlib import Path

import msgspec

from oomctl.analyzers.ledger import Engine, ModelShape, predict
from oomctl.analyzers.ledger.compare import breaches, diff
from oomctl.analyzers.ledger.reconcile import Reconciled
from oomctl.schemas.ledger import GIB, Ledger
from tests.cli.run import oomctl
from tests.ledger import configs

DEVICE = 80 * 2**30


def of(folder: Path, **arguments: float) -> Ledger:
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


def test_a_change_says_what_bears_on_it(tmp_path: Path) -> None:
    before, after = of(tmp_path), of(tmp_path, max_requests=64, utilization=0.95)
    found = diff(before, after)
    assert found.settings == {
        "--max-num-seqs": ("1024", "64"), "--gpu-memory-utilization": ("0.9", "0.95"),
    }  # fmt: skip
    by_owner = {change.owner: change for change in found.changes}
    assert by_owner["logits"].why == ("--max-num-seqs 1024 -> 64",)
    pool = by_owner["KV blocks"]
    assert pool.why[0] == "--gpu-memory-utilization 0.9 -> 0.95"
    peak = by_owner["profiling peak"].grown_bytes or 0
    assert peak < 0
    assert pool.why[1] == f"profiling peak {peak / GIB:+.3f} GiB"
    assert any("--max-num-seqs" in line for line in breaches(after, before, 0.01, None))
    assert all(change.why for change in found.changes)


def test_a_ledger_of_before_arguments_were_kept_is_read(tmp_path: Path) -> None:
    old = msgspec.json.decode(msgspec.json.encode(of(tmp_path)))
    del old["arguments"]
    assert diff(msgspec.convert(old, Ledger), of(tmp_path)).changes == []


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


PROFILED = (
    LOG
    + """\
(Worker_TP0 pid=7) INFO 03-01 10:00:09 [gpu_worker.py:424] Available KV cache memory: 60.00 GiB
(Worker_TP1 pid=8) INFO 03-01 10:00:09 [gpu_worker.py:424] Available KV cache memory: 59.50 GiB
"""
)


def test_what_was_measured_is_kept_with_a_latency_beside_it(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text(PROFILED)
    ledger = of(tmp_path, tensor_parallel=2)
    (tmp_path / "ledger.json").write_bytes(msgspec.json.encode(ledger))
    ran = oomctl("ledger", "measure", str(tmp_path / "ledger.json"), str(tmp_path / "worker.log"), "--latency", "p50=900")
    found = msgspec.json.decode(ran.out, type=Ledger)
    assert found.entries == ledger.entries
    assert {(entry.component, entry.rank) for entry in found.measured} == {
        (component, rank) for component in ("weights", "kv_pool") for rank in (0, 1)
    }
    assert all(entry.quality == "measured" and ":" in entry.source for entry in found.measured)
    assert found.summary.measured_weight_steady_gib_per_rank == 0.75
    assert found.summary.kv_pool_gib_per_rank == 59.5
    assert found.summary.measured_runtime_peak_gib_per_rank is None, "no line tells it"
    assert found.latency_us == {"p50": 900.0}
    changes = diff(ledger, found)
    assert sum("measured" in change.owner for change in changes.changes) == 4
    assert changes.latency_us == {"p50": (None, 900.0)}


def test_what_is_known_on_both_sides_is_summed_by_rank(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text(PROFILED)
    (tmp_path / "ledger.json").write_bytes(msgspec.json.encode(of(tmp_path, tensor_parallel=2)))
    text = oomctl("ledger", "reconcile", str(tmp_path / "ledger.json"), str(tmp_path / "worker.log")).out
    sums = [line.split() for line in text.splitlines() if "in all" in line]
    assert [(line[0], line[5]) for line in sums] == [("0", "60.750"), ("1", "60.250")]


def test_a_latency_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_bytes(msgspec.json.encode(of(tmp_path)))
    for wrong in ("p50", "p50=fast", "=1", "p50=-1", "p50=nan"):
        oomctl("ledger", "measure", str(tmp_path / "ledger.json"), "x.log", "--latency", wrong).assert_fails(2, "latency")


def test_revisions_are_kept_and_compared(tmp_path: Path) -> None:
    config = str(configs.write(tmp_path, configs.DENSE))
    files = []
    for revision in ("aaa", "bbb"):
        ran = oomctl("ledger", "predict", config, "--json", "--model-revision", revision, "--engine-revision", "e1")
        (tmp_path / f"{revision}.json").write_text(ran.out)
        files.append(str(tmp_path / f"{revision}.json"))
    assert oomctl("ledger", "diff", *files).out == "model_revision: aaa -> bbb\n"
