"""The whole ledger, through the library and the command."""

import doctest
import importlib
import json
import pkgutil
from pathlib import Path

import msgspec
import pytest

from oomctl.analyzers import ledger as package
from oomctl.analyzers.ledger import Engine, ModelShape, predict
from oomctl.analyzers.ledger.arguments import parse_engine
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.ledger import Ledger
from tests.cli.run import oomctl
from tests.ledger import configs

NAMES = [found.name for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
WORKED = [
    name for name in NAMES if any(found.examples for found in doctest.DocTestFinder().find(importlib.import_module(name)))
]


def test_the_worked_numbers_are_there() -> None:
    assert {f"{package.__name__}.{module}" for module in ("units", "kv", "allocator", "packing")} <= set(WORKED)


@pytest.mark.parametrize("name", WORKED)
def test_worked_numbers(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_real_cpu_worker(tmp_path: Path) -> None:
    """A real vLLM 0.32 for the CPU, with these arguments and this tiny model, printed 1,536 tokens and 1.50x."""
    tiny = configs.DENSE | {"num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 64, "vocab_size": 500}
    line = "vllm serve tiny --max-model-len 1024 --block-size 32 --kv-cache-memory-bytes 1572864"
    own, _ = parse_engine("vllm==0.32.0", line)
    ledger = predict(ModelShape.from_config(configs.write(tmp_path, tiny)), own)
    assert ledger.pool is not None
    assert (ledger.pool.blocks, ledger.pool.tokens, ledger.pool.max_concurrency) == (48, 1536, 1.5)


def test_a_pool_given_in_bytes_needs_no_estimate(tmp_path: Path) -> None:
    ledger = predict(ModelShape.from_config(configs.write(tmp_path, configs.DENSE)), Engine(kv_bytes=2**20))
    assert ledger.pool is not None
    assert ledger.pool.blocks == 2**20 // ledger.kv[0].bytes_per_block
    assert {entry.quality for entry in ledger.entries if entry.owner == "KV blocks"} == {"predicted"}


def test_an_estimated_pool_has_the_interval_of_what_it_is_left_by(tmp_path: Path) -> None:
    ledger = predict(ModelShape.from_config(configs.write(tmp_path, configs.DENSE)), Engine(), 80 * 2**30)
    pool = next(entry for entry in ledger.entries if entry.owner == "KV blocks")
    charged = [entry for entry in ledger.entries if entry.counts and entry.component in ("activation", "non_torch")]
    width = sum((entry.high_bytes or 0) - (entry.low_bytes or 0) for entry in charged)
    assert (pool.high_bytes or 0) - (pool.low_bytes or 0) == width > 0
    assert (pool.low_bytes or 0) < (pool.bytes or 0) < (pool.high_bytes or 0)


def test_what_is_unknown_is_null_with_its_reason(tmp_path: Path) -> None:
    ledger = predict(ModelShape.from_config(configs.write(tmp_path, configs.DENSE)), Engine(version=(0, 11)), 80 * 2**30)
    unknown = [entry for entry in ledger.entries if entry.bytes is None and entry.counts]
    assert {entry.component for entry in unknown} == {"activation", "non_torch", "context", "graph_pool", "kv_pool"}
    assert all(entry.reason and entry.quality is None for entry in unknown)
    assert ledger.pool is None


def test_it_does_not_start_where_one_request_does_not_fit(tmp_path: Path) -> None:
    ledger = predict(
        ModelShape.from_config(configs.write(tmp_path, configs.DENSE)), Engine(gpu_blocks=63, max_model_len=1024)
    )
    assert ledger.pool is not None
    assert not ledger.pool.starts
    assert ledger.pool.spare_bytes == -ledger.kv[0].bytes_per_block


def test_arguments_as_people_write_them() -> None:
    line = "vllm serve org/model \\\n --tensor_parallel_size=4 -pp 2 --max-model-len 32k --kv-cache-dtype fp8 --enable-lora"
    own, notes = parse_engine("vllm==0.19.0", line)
    assert (own.tensor_parallel, own.pipeline_parallel, own.max_model_len, own.kv_dtype) == (4, 2, 32000, "fp8")
    assert own.loras == 1
    assert notes == []
    assert parse_engine("vllm", "--max-loras 4")[0].loras == 0
    assert parse_engine("sglang==0.5.6", "--lora-paths a=b")[1] == ["--lora-paths is not counted"]
    assert parse_engine("vllm==0.19.0", "--cpu-offload-gb 0.5")[0].offload_bytes == 2**29
    assert parse_engine("vllm==0.19.0", "--port 8000 --nosuch 3")[1] == ["not looked at: --port, --nosuch"]
    assert parse_engine("vllm", "")[1] == ["no version of vllm was given: 0.19 is assumed"]
    with pytest.raises(OomctlError, match="--gpu-memory-utilisation is no option"):
        parse_engine("vllm", "--gpu-memory-utilisation 0.5")
    for wrong in ("--tp zero", "--tp 0", "--gpu-memory-utilization 95", "--speculative-config x", "'"):
        with pytest.raises(OomctlError):
            parse_engine("vllm", wrong)


def test_the_command(tmp_path: Path) -> None:
    config = configs.write(tmp_path, configs.DENSE)
    ran = oomctl("ledger", "predict", str(config), "--device", "80GiB", "--json")
    ledger = msgspec.json.decode(ran.out.encode(), type=Ledger)
    assert ledger.total("weights") == sum(
        entry.bytes or 0 for entry in ledger.entries if entry.component == "weights" and entry.counts
    )
    text = oomctl("ledger", "predict", str(tmp_path), "--device", "H100-80GB").out
    assert "RANK 0" in text and "POOL" in text


def test_errors_of_the_command(tmp_path: Path) -> None:
    config = str(configs.write(tmp_path, configs.DENSE))
    oomctl("ledger", "predict", config, "--engine-args", "-tp 3").assert_fails(2, "divide")
    oomctl("ledger", "predict", config, "--device", "Z9000").assert_fails(2, "Z9000")
    oomctl("ledger", "predict", config, "--engine", "magic==1").assert_fails(2, "magic")
    oomctl("ledger", "predict", str(tmp_path / "none.json")).assert_fails(3, "none.json")
    (tmp_path / "list.json").write_text(json.dumps([1]))
    oomctl("ledger", "predict", str(tmp_path / "list.json")).assert_fails(3, "no JSON object")
