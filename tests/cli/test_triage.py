"""`oomctl triage`: formats and exit statuses on a given verdict, then the whole way from a log."""

import importlib
import json
from pathlib import Path

import pytest

from oomctl import pipeline
from oomctl.cli.app import run
from oomctl.schemas.verdict import Triage
from tests.cli import samples
from tests.cli.run import oomctl

LOG = """\
INFO 09-18 14:03:01 [api_server.py:1346] vLLM API server version 0.10.1
(EngineCore_0 pid=10) INFO 09-18 14:03:12 [core.py:93] Initializing a V1 LLM engine (v0.10.1) with config: model='/m'
(EngineCore_0 pid=10) INFO 09-18 14:03:44 [gpu_model_runner.py:402] Model loading took 15.62 GiB and 31.20 seconds
(EngineCore_0 pid=10) INFO 09-18 14:04:14 [gpu_worker.py:642] Available KV cache memory: 2.97 GiB
(EngineCore_0 pid=10) INFO 09-18 14:04:14 [kv_cache_utils.py:1502] GPU KV cache size: 150,745 tokens
"""
FAILURE = """\
(EngineCore_0 pid=10) Capturing CUDA graphs (decode, FULL):   0%|          | 0/1 [00:00<?, ?it/s]
(EngineCore_0 pid=10) ERROR 09-18 14:04:16 [core.py:1180] EngineCore failed to start.
(EngineCore_0 pid=10) ERROR 09-18 14:04:16 [core.py:1180] Traceback (most recent call last):
(EngineCore_0 pid=10) ERROR 09-18 14:04:16 [core.py:1180]   File "/v/v1/gpu_model_runner.py", line 5, in capture_model
(EngineCore_0 pid=10) ERROR 09-18 14:04:16 [core.py:1180]     self._dummy_run(size)
(EngineCore_0 pid=10) ERROR 09-18 14:04:16 [core.py:1180] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate \
786.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 771.00 MiB is free. Including non-PyTorch memory, this \
process has 30.58 GiB memory in use. Of the allocated memory 29.00 GiB is allocated by PyTorch, and 200.00 MiB is \
reserved by PyTorch but unallocated.
"""
needs_analyzers = pytest.mark.skipif(
    not hasattr(importlib.import_module("oomctl.analyzers.triage"), "triage"), reason="no analyzers yet"
)


def given(monkeypatch: pytest.MonkeyPatch, result: Triage) -> None:
    monkeypatch.setattr(pipeline, "triage_paths", lambda paths, **options: result)


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        ("any", 1),
        ("oom", 1),
        ("warm_up", 1),
        ("OOM002", 1),
        ("capacity_gate, undetermined", 1),
        ("not_oom", 0),
        ("oom001,recovery", 0),
    ],
)
def test_fail_on(monkeypatch: pytest.MonkeyPatch, fail_on: str, code: int) -> None:
    given(monkeypatch, samples.many())
    assert run(["triage", "x"]) == 0
    assert run(["triage", "x", "--fail-on", fail_on]) == code
    given(monkeypatch, samples.none())
    assert run(["triage", "x", "--fail-on", fail_on]) == 0


@pytest.mark.parametrize(
    ("arguments", "golden"),
    [
        ((), "many.txt"),
        (("--format", "jsonl"), "many.jsonl"),
        (("--format", "csv"), "many.csv"),
    ],
)
def test_formats(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], golden: str
) -> None:
    given(monkeypatch, samples.many())
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["triage", "x", *arguments]) == 0
    assert capsys.readouterr() == ((Path(__file__).parent / "golden" / golden).read_text(encoding="utf-8"), "")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty file (a.log)"),
        (bytes(range(256)) * 40, "not a text log (a.log)"),
    ],
)
def test_what_is_no_log_exits_3(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.log").write_bytes(content)
    oomctl("triage", "a.log", cwd=tmp_path).assert_fails(3, said)
    oomctl("triage", "-", stdin=content).assert_fails(3, said.replace("a.log", "stdin"))


@needs_analyzers
def test_log_stdin_and_recording_give_one_verdict(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG + FAILURE)
    from_log = oomctl("triage", "a.log", "--json", cwd=tmp_path)
    assert (from_log.code, from_log.err) == (0, "")
    document = json.loads(from_log.out)
    assert list(document) == ["schema", "inputs", "incidents", "omitted"]
    assert document["inputs"][0]["lines"] == len((LOG + FAILURE).splitlines())
    assert document["incidents"][0]["class"] == "warm_up"
    assert oomctl("import", "a.log", "-o", "a.parquet", cwd=tmp_path).code == 0
    from_parquet = json.loads(oomctl("triage", "a.parquet", "--json", cwd=tmp_path).out)
    assert from_parquet["incidents"] == document["incidents"]
    from_stdin = json.loads(oomctl("triage", "-", "--json", stdin=(LOG + FAILURE).encode()).out)
    assert [entry["class"] for entry in from_stdin["incidents"]] == ["warm_up"]
    assert oomctl("triage", "a.log", "--fail-on", "warm_up", cwd=tmp_path).code == 1
    page = oomctl("triage", "a.log", cwd=tmp_path).out
    assert page.startswith("OUT OF MEMORY, warm_up (OOM002)")
    assert "\x1b" not in page


@needs_analyzers
def test_healthy_log_has_no_incident(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    ran = oomctl("triage", "a.log", "--fail-on", "any", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("no memory incident found\n  read a.log: 5 lines, ")
