"""`oomctl export`: a copy to hand on; with --redact nobody is named in it, and the verdict is the same."""

# ruff: noqa: E501  a line of a log is one line

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oomctl.analyzers.triage import triage
from oomctl.pipeline import open_inputs
from oomctl.redaction.table import redacted
from oomctl.schemas.text_forms import rows
from tests.cli.run import oomctl
from tests.scenarios import catalogue, render_log
from tests.shared import ROOT, SHARED

RENDERED = [(scenario.name, engine) for scenario in catalogue() for engine in scenario.engines]
LOGS = [*sorted((ROOT / "examples").glob("*.log")), *sorted((SHARED / "data" / "oom_logs" / "logs").glob("*.log"))]
NAMED = ("id", "worker", "incarnation", "cites", "requests", "summary", "detail", "text")
"""What may differ: names, and texts that quote them."""

HOSTILE = """\
[pod/llm-7d9c8b6f54-x2k9q/vllm] (APIServer pid=4117) INFO 03-14 15:09:21 [entrypoints/openai/api_server.py:1381] vLLM API server version 0.26.1
(APIServer pid=4117) INFO 03-14 15:09:21 [entrypoints/utils.py:241] non-default args: {'model': '/home/alice/models/Otter-Secret-9B', 'served_model_name': ['otter-prod'], 'host': '10.20.30.40', 'api_key': ['sk-abcdefghijklmnopqrstuvwx'], 'gpu_memory_utilization': 0.97}
(EngineCore pid=4302) INFO 03-14 15:09:22 [v1/engine/core.py:105] Initializing a V1 LLM engine (v0.26.1) with config: model='/home/alice/models/Otter-Secret-9B', tokenizer='zorro/Otter-Secret-9B'
(EngineCore pid=4302) WARNING 03-14 15:09:23 [x.py:1] node ip-10-20-30-40.ec2.internal at fd00:1234:5678::9 (10.20.30.41:8000) user=alice tenant=megacorp request_id=req-9f8e7d6c5b for alice@zorro-corp.com
(EngineCore pid=4302) WARNING 03-14 15:09:23 [x.py:1] Added request cmpl-1234567890abcdef1234567890abcdef-0 from https://llm.zorro-corp.com:8443/v1/completions
(EngineCore pid=4302) WARNING 03-14 15:09:24 [x.py:1] loading s3://zorro-bucket/otter/weights and /data/zorro/otter/ckpt.safetensors for pod llm-7d9c8b6f54-x2k9q GPU-12345678-1234-1234-1234-123456789abc
(EngineCore pid=4302) WARNING 03-14 15:09:24 [x.py:1] says {"hostname": "gpu-node-17", "namespace": "zorro-prod", "user": "bob", "msg": "Otter-Secret-9B is served"}
(EngineCore pid=4302) ERROR 03-14 15:09:25 [core.py:9] Traceback (most recent call last):
(EngineCore pid=4302) ERROR 03-14 15:09:25 [core.py:9]   File "/home/alice/zorro/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 618, in compile_or_warm_up_model
(EngineCore pid=4302) ERROR 03-14 15:09:25 [core.py:9]     cuda_graph_memory_bytes = self.model_runner.capture_model()
(EngineCore pid=4302) ERROR 03-14 15:09:25 [core.py:9]   File "/home/alice/zorro/patches/otter_patch.py", line 5, in _capture_cudagraphs
(EngineCore pid=4302) ERROR 03-14 15:09:25 [core.py:9] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 80.00 MiB. GPU 0 has a total capacity of 44.39 GiB of which 52.44 MiB is free.
"""
SECRET = (
    "otter", "alice", "bob", "zorro", "megacorp", "10.20.30", "10-20-30", "fd00", "9f8e7d6c5b", "1234567890abcdef", "sk-abc",
    "7d9c8b6f54", "12345678-1234", "gpu-node",
)  # fmt: skip


def facts(value: Any) -> Any:
    """A verdict without names."""
    if isinstance(value, dict):
        return {key: facts(item) for key, item in value.items() if key not in NAMED}
    return [facts(item) for item in value] if isinstance(value, list) else value


def assert_same_verdict(path: Path) -> None:
    loaded = open_inputs([str(path)])
    hidden = redacted(loaded.connection)
    before, after = (json.loads(msgspec.json.encode(triage(table))) for table in (loaded.connection, hidden))
    assert facts(after) == facts(before)
    count = sum(1 for _ in rows(loaded.connection))
    assert sum(1 for _ in rows(hidden)) == count
    loaded.connection.close()
    hidden.close()


@pytest.mark.parametrize(("scenario", "engine"), RENDERED)
def test_redacted_scenario_keeps_its_verdict(tmp_path: Path, scenario: str, engine: str) -> None:
    (tmp_path / "a.log").write_text(render_log(scenario, seed=3, ranks=2, engine=engine))
    assert_same_verdict(tmp_path / "a.log")


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_redacted_log_keeps_its_verdict(log: Path) -> None:
    assert_same_verdict(log)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_nobody_is_named(tmp_path: Path, form: str) -> None:
    (tmp_path / "alice-gpu-node-17.log").write_text(HOSTILE)
    ran = oomctl("export", "alice-gpu-node-17.log", "--redact", "-o", f"out.{form}", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, ""), ran.err
    assert (tmp_path / f"out.{form}").stat().st_mode & 0o777 == 0o600
    if form == "parquet":
        shown = oomctl("query", "out.parquet", "-c", "SELECT * FROM events", "--format", "jsonl", cwd=tmp_path).out
        verdict = json.loads(oomctl("triage", "out.parquet", "--json", cwd=tmp_path).out)["incidents"]
        assert [incident["class"] for incident in verdict] == ["warm_up"]
        shown += json.dumps(verdict)
    else:
        shown = (tmp_path / "out.jsonl").read_text()
        assert all(json.loads(line)["kind"] for line in shown.splitlines())
    assert [word for word in SECRET if word in shown.lower()] == []
    assert "vllm/v1/worker/gpu_worker.py" in shown and "total capacity of 44.39 GiB" in shown


def test_one_name_has_one_pseudonym(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(HOSTILE)
    loaded = open_inputs([str(tmp_path / "a.log")])
    hidden = redacted(loaded.connection)
    texts = "\n".join(str(row["log"]["text"]) for row in rows(hidden) if row["kind"] == "log")
    assert texts.count("model-1") >= 2
    pod = texts.partition("[pod/")[2].partition("/")[0]
    assert f"pod {pod} " in texts, "the same pod in the midst of a line"


def test_without_redact_it_is_a_copy_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(HOSTILE)
    ran = oomctl("export", "a.log", "-o", "b.parquet", cwd=tmp_path)
    assert ran.code == 0 and "--redact" in ran.err
    log, copy = (json.loads(oomctl("triage", name, "--json", cwd=tmp_path).out) for name in ("a.log", "b.parquet"))
    assert log["incidents"] == copy["incidents"]
    again = oomctl("export", "b.parquet", "--redact", "-o", "c.parquet", cwd=tmp_path)
    assert again.code == 0, again.err
    copied = json.loads(oomctl("triage", "c.parquet", "--json", cwd=tmp_path).out)
    kept = ("verdict", "class", "confidence", "requested_bytes", "short_bytes", "causes", "remedies", "memory_at_oom")
    for before, after in zip(log["incidents"], copied["incidents"], strict=True):
        assert [facts(after)[name] for name in kept] == [facts(before)[name] for name in kept]
    assert not any(word in json.dumps(copied["incidents"]).lower() for word in SECRET)


def test_usage(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(HOSTILE)
    oomctl("export", "a.log", "-o", "b.txt", cwd=tmp_path).assert_fails(2, "cannot tell the form of the output (b.txt)")
    (tmp_path / "b.jsonl").write_text("mine")
    oomctl("export", "a.log", "-o", "b.jsonl", cwd=tmp_path).assert_fails(2, "will not overwrite without --force")
    assert (tmp_path / "b.jsonl").read_text() == "mine"
    oomctl("export", "a.log", "-o", "no/b.jsonl", cwd=tmp_path).assert_fails(4, "cannot write")
