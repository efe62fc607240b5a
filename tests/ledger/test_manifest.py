"""A prediction from what a log or a recording tells of its deployment."""

from pathlib import Path

import msgspec

from oomctl import queries
from oomctl.analyzers.ledger.manifest import read_manifest
from oomctl.schemas import storage
from oomctl.schemas.ledger import Ledger
from oomctl.schemas.rows import make_row
from tests.cli.run import oomctl
from tests.ledger import configs

ARGUMENTS = (
    "{'model': 'm', 'tensor_parallel_size': 2, 'max_model_len': 512, 'dtype': 'torch.bfloat16', 'block_size': 32,"
    " 'enforce_eager': True, 'enable_prefix_caching': False, 'gpu_memory_utilization': 0.8, 'served_model_name': ['a b']}"
)
LOG = f"""\
INFO 03-01 09:59:59 [api_server.py:1896] vLLM API server version 0.20.1
INFO 03-01 10:00:00 [utils.py:233] non-default args: {ARGUMENTS}
(Worker_TP0 pid=7) INFO 03-01 10:00:01 [gpu_model_runner.py:4820] Model loading took 0.75 GiB memory and 1.5 seconds
"""


def test_engine_and_arguments_come_from_a_log(tmp_path: Path) -> None:
    config = str(configs.write(tmp_path, configs.DENSE))
    (tmp_path / "worker.log").write_text(LOG)
    told = ("ledger", "predict", config, "--manifest", str(tmp_path / "worker.log"), "--device", "80GiB", "--json")
    found = msgspec.json.decode(oomctl(*told).out, type=Ledger)
    assert (found.engine_version, found.tensor_parallel, found.max_model_len) == ("0.20", 2, 512)
    assert found.arguments["--gpu-memory-utilization"] == 0.8
    assert found.arguments["--enforce-eager"]
    assert found.arguments["--no-enable-prefix-caching"]
    assert found.kv[0].groups[0].block_tokens == 32
    assert found.notes == []
    more = msgspec.json.decode(
        oomctl(*told, "--engine-args", "--max-model-len 256", "--engine", "vllm==0.19").out, type=Ledger
    )
    assert (more.engine_version, more.tensor_parallel, more.max_model_len) == ("0.19", 2, 256)


def test_a_recording_tells_the_same(tmp_path: Path) -> None:
    config = str(configs.write(tmp_path, configs.DENSE))
    (tmp_path / "worker.log").write_text(LOG)
    oomctl("import", str(tmp_path / "worker.log"), "-o", str(tmp_path / "worker.parquet"))
    outs = [
        oomctl("ledger", "predict", config, "--manifest", str(tmp_path / name), "--json").out
        for name in ("worker.log", "worker.parquet")
    ]
    assert outs[0] == outs[1] != ""


def test_what_a_page_of_metrics_tells_as_none_was_not_given() -> None:
    told = [("engine", "name", "vllm"), ("argument", "num_gpu_blocks_override", "None"), ("argument", "block_size", "32")]
    connection = storage.connect()
    try:
        rows = [
            make_row(
                "manifest",
                {"section": section, "key": key, "value": value},
                {"stream": "page", "seq": seq, "source": "prometheus", "worker": "w", "incarnation": "1", "ts": 1},
            )
            for seq, (section, key, value) in enumerate(told)
        ]
        storage.load_rows(connection, rows)
        queries.install(connection)
        assert read_manifest(connection).line == "--block-size 32"
    finally:
        connection.close()


def test_a_log_of_no_engine_is_an_error(tmp_path: Path) -> None:
    config = str(configs.write(tmp_path, configs.DENSE))
    (tmp_path / "worker.log").write_text("nothing\n")
    oomctl("ledger", "predict", config, "--manifest", str(tmp_path / "worker.log")).assert_fails(3, "no engine")
