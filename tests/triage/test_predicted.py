"""What no line prints is predicted, from printed options or from a kept ledger, and marked; a measurement stands."""

from pathlib import Path

import msgspec
import pytest

from oomctl.analyzers.ledger import Engine, ModelShape, predict
from oomctl.analyzers.triage.ledger import memory_at_oom
from oomctl.analyzers.triage.predicted import fill, freed, priced
from oomctl.schemas.ledger import Ledger
from oomctl.schemas.verdict import MemoryNode, Remedy
from tests.cli.run import oomctl
from tests.ledger import configs
from tests.triage import tables
from tests.triage.tables import GIB, WARMING, Table

SAMPLER = ("/pkg/vllm/v1/worker/gpu_model_runner.py", "_dummy_sampler_run")


def warm(*, version: str | None = "0.19.0", vocabulary: object = 150_000, sequences: object = 1024) -> Table:
    table = Table(*WARMING)
    if version is not None:
        table.arguments("engine", name="vllm", version=version)
    if vocabulary is not None:
        table.arguments("model", vocab_size=vocabulary)
    if sequences is not None:
        table.arguments(max_num_seqs=sequences)
    return table.stack(SAMPLER).oom(**tables.figures())


def children(table: Table, *path: str, ledger: Ledger | None = None) -> dict[str, MemoryNode]:
    case = table.case()
    case.ledger = ledger
    node = fill(case, memory_at_oom(case))
    for name in path:
        assert node is not None
        node = next(child for child in node.children if child.name == name)
    assert node is not None
    if node.children:
        assert sum(child.bytes or 0 for child in node.children) == node.bytes
    return {child.name: child for child in node.children}


TENSORS = ("own_process", "framework", "other_tensors")
OUTSIDE = ("own_process", "non_framework")


def test_logits_while_they_are_sampled() -> None:
    found = children(warm(), *TENSORS)
    assert list(found) == ["logits", "rest"]
    logits = found["logits"]
    assert (logits.bytes, logits.quality) == (1024 * 150_000 * 2, "predicted")
    assert [cite.query for cite in logits.cites] == ["arguments", "arguments"]


@pytest.mark.parametrize("missing", [{"vocabulary": None}, {"sequences": None}, {"vocabulary": "auto"}], ids=str)
def test_a_missing_factor_predicts_nothing(missing: dict[str, object]) -> None:
    assert children(warm(**missing), *TENSORS) == {}  # type: ignore[arg-type]


def test_logits_are_not_there_outside_the_sampler() -> None:
    table = Table(*WARMING).arguments("model", vocab_size=150_000).arguments(max_num_seqs=1024)
    assert children(table.stack(tables.LOAD_FRAME).oom(**tables.figures()), *TENSORS) == {}


def test_context_and_driver_by_the_engines_version() -> None:
    found = children(warm(), *OUTSIDE)
    assert list(found) == ["context", "driver_and_collectives", "rest"]
    assert {node.quality for node in found.values()} == {"estimated", "derived"}
    assert children(warm(version="0.6.3"), *OUTSIDE) == {}
    assert children(warm(version=None), *OUTSIDE) == {}


def test_what_is_more_than_there_was_is_not_said() -> None:
    assert children(warm(sequences=10**6), *TENSORS) == {}


def test_a_kept_ledger_tells_what_no_line_prints(tmp_path: Path) -> None:
    shape = ModelShape.from_config(configs.write(tmp_path, configs.DENSE))
    ledger = predict(shape, Engine(), 80 * GIB)
    found = children(warm(), *TENSORS, ledger=ledger)
    assert found["weights"].bytes == ledger.total("weights")
    assert found["weights"].quality == "predicted"
    measured = Table(*WARMING).add("memory", component="weights", owner="steady", bytes=30 * GIB)
    again = children(measured.oom(**tables.figures()), *TENSORS, ledger=ledger)
    assert "weights" not in again
    assert children(warm(), *OUTSIDE, ledger=ledger)["context"].bytes == ledger.total("context")


def test_the_bytes_of_fewer_sequences() -> None:
    amount, arithmetic = freed(warm().case(), "max_num_seqs", 1024, 512) or (0, "")
    assert amount == 512 * 150_000 * 4
    assert "(1024 - 512) x 150000 x 4 B" in arithmetic
    assert freed(warm(vocabulary=None).case(), "max_num_seqs", 1024, 512) is None
    assert freed(warm().case(), "max_num_batched_tokens", 8192, 4096) is None


def test_the_bytes_of_fewer_adapters_come_from_the_ledger(tmp_path: Path) -> None:
    case = warm().case()
    assert freed(case, "max_loras", 4, 2) is None
    case.ledger = predict(ModelShape.from_config(configs.write(tmp_path, configs.DENSE)), Engine(loras=4))
    amount, arithmetic = freed(case, "max_loras", 4, 2) or (0, "")
    assert amount == (case.ledger.total("adapter") or 0) // 2
    assert "LoRA slots" in arithmetic


EAGER = Remedy(when="change", action="Do without graphs.", setting="--enforce-eager")


def test_graphs_that_are_given_up_have_their_bytes(tmp_path: Path) -> None:
    case = warm().case()
    assert priced(case, EAGER, "graph_pool") is EAGER
    case.ledger = predict(ModelShape.from_config(configs.write(tmp_path, configs.DENSE)), Engine(), 80 * GIB)
    assert priced(case, EAGER, "graph_pool").frees_bytes == case.ledger.total("graph_pool")
    assert priced(case, EAGER, "activation") is EAGER
    measured = Table(*WARMING).add("memory", component="graph_pool", owner="estimate", bytes=GIB)
    shown = measured.add("memory", component="graph_pool", owner="captured", bytes=2 * GIB).oom(**tables.figures())
    assert priced(shown.case(), EAGER, "graph_pool").frees_bytes == 2 * GIB


LOG = """\
INFO 04-22 00:58:40 [core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: model='small', tensor_parallel_size=1
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB. GPU 0 has a total capacity of 79.19 GiB of which \
552.50 MiB is free. Including non-PyTorch memory, this process has 78.64 GiB memory in use. Of the allocated memory \
74.91 GiB is allocated by PyTorch, and 1.78 GiB is reserved by PyTorch but unallocated.
"""


def test_the_command(tmp_path: Path) -> None:
    ledger = predict(ModelShape.from_config(configs.write(tmp_path, configs.DENSE)), Engine(), 80 * GIB)
    (tmp_path / "ledger.json").write_bytes(msgspec.json.encode(ledger))
    (tmp_path / "engine.log").write_text(LOG)
    shown = oomctl("triage", str(tmp_path / "engine.log"), "--json", "--ledger", str(tmp_path / "ledger.json")).out
    assert "not printed; from the ledger" in shown
    oomctl("triage", str(tmp_path / "engine.log"), "--ledger", str(tmp_path / "engine.log")).assert_fails(3, "no ledger")
