"""Verdicts on the shared data: real logs of others, and recordings of real workers."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oomctl.pipeline import triage_paths
from oomctl.schemas.verdict import Incident
from tests.shared import SHARED, shared

ONLY = ("vllm", "sglang", "transformers")
Judge = Callable[[str, list[dict[str, Any]]], tuple[bool, str]]
HEALTHY = sorted(path for path in (SHARED / "data" / "vllm_logs").glob("*.log") if "FAILED" not in path.name)
NOT_ABOUT_MEMORY = ("google-gemma-2-2b-it", "microsoft-phi-2", "qwen-qwen3-14b")


def incidents(*parts: str) -> list[Incident]:
    return triage_paths([str(shared("data", *parts))]).incidents


def judge() -> Judge:
    """The function of score.py, from where it lies."""
    spec = importlib.util.spec_from_file_location("oom_logs_score", shared("data", "oom_logs", "score.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Judge = module.judge
    return found


def test_labelled_logs() -> None:
    """At most three of the 27 logs of the engines read so far are wrong, and every not_oom is right."""
    right = judge()
    wrong = {}
    count = 0
    for line in shared("data", "oom_logs", "labels.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["engine"].replace("+", " ").split()[0] not in ONLY:
            continue
        count += 1
        found = json.loads(msgspec.json.encode(incidents("oom_logs", "logs", f"{row['id']}.log")))
        said = [right(label, found) for label in (row["label"], *row["also"])]
        if not any(ok for ok, _ in said):
            wrong[row["id"]] = (row["label"], said[0][1])
    assert count == 27
    assert len(wrong) <= 3, wrong
    assert not [name for name, (label, _) in wrong.items() if label == "not_oom"]


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_no_incident_in_a_log_that_did_not_fail(path: Path) -> None:
    assert incidents("vllm_logs", path.name) == []


def failed(model: str) -> list[Incident]:
    folder = shared("data", "vllm_logs")
    (path,) = folder.glob(f"{model}--*FAILED.log")
    return incidents("vllm_logs", path.name)


def test_the_sampler_of_gpt_oss() -> None:
    root = failed("openai-gpt-oss-20b")[0]
    assert (root.verdict, root.oom_class, root.resource, root.requested_bytes) == ("oom", "warm_up", "device", 786 * 2**20)
    product = next(cause for cause in root.causes if "1024 x 201088 x 4" in cause.detail)
    texts = " ".join(cite.text or "" for cite in product.cites)
    assert "1024" in texts and "201088" in texts, "both factors are cited"


def test_the_start_gate_of_llama_4() -> None:
    root = failed("meta-llama-llama-4-scout")[0]
    assert (root.verdict, root.resource) == ("capacity_gate", "device")


@pytest.mark.parametrize("model", NOT_ABOUT_MEMORY)
def test_failures_that_are_not_about_memory(model: str) -> None:
    assert [incident for incident in failed(model) if incident.verdict != "not_oom"] == []


def test_engine_that_died_of_a_wrong_option() -> None:
    (root,) = incidents("engine", "failed_block_size", "server.log")
    assert root.verdict == "not_oom"
    assert root.summary.startswith("Not a memory death: ")


@pytest.mark.parametrize("place", ["server5_compiled_warm.log", "transformers_cb_small.log"])
def test_engine_without_incident(place: str) -> None:
    assert incidents("engine", *place.split("/")) == []


def test_engine_kv_pool_too_small() -> None:
    root = incidents("engine", "failed_kv_too_small", "server.log")[0]
    assert (root.verdict, root.resource) == ("capacity_gate", "kv_blocks")


def test_engine_idle_worker_killed() -> None:
    root = incidents("engine", "idle_worker_kill9", "server.log")[0]
    assert (root.verdict, root.resource) == (None, "host")
    assert root.confidence < 0.6
    assert any("kernel" in item.what for item in root.missing)


def test_engine_preempting_worker_killed() -> None:
    root, *rest = incidents("engine", "induced_worker_kill9", "server.log")
    assert (root.verdict, root.resource) == (None, "host")
    assert root.confidence < 0.6
    assert {(item.oom_class, item.survived) for item in rest} <= {("decode_growth", True)}


def test_engine_cpu_allocator() -> None:
    root = incidents("engine", "induced_cpualloc", "server.log")[0]
    assert root.verdict == "oom" and root.resource in ("host", "device")


def test_engine_synthetic_cuda_message() -> None:
    root = incidents("engine", "induced_cudaoom", "server.log")[0]
    assert (root.verdict, root.resource) == ("oom", "device")


def test_engine_sglang_retractions() -> None:
    root = incidents("engine", "sglang", "server_retract.log")[0]
    assert (root.verdict, root.oom_class, root.resource, root.survived) == ("oom", "decode_growth", "kv_blocks", True)
    assert incidents("engine", "sglang", "server.log") == []
