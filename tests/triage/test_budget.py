"""What lowering the budget can free: at most the KV pool, and never below what else the budget holds."""

from typing import Any

import pytest

from oomctl.schemas.verdict import Incident, Remedy
from tests.triage import tables
from tests.triage.tables import CAPTURE_FRAME, GIB, MIB, STEP_FRAME, WARMING, Table

PROFILE_FRAMES = (
    ("/pkg/vllm/v1/worker/gpu_worker.py", "determine_available_memory"),
    ("/pkg/vllm/v1/worker/gpu_model_runner.py", "profile_run"),
    ("/pkg/vllm/v1/worker/gpu_model_runner.py", "_dummy_run"),
)
ENCODER_FRAME = ("/pkg/vllm/model_executor/models/qwen2_vl.py", "embed_multimodal")


def table(engine: str, pool: int | None, **arguments: Any) -> Table:
    made = Table(*WARMING, "capturing").arguments("engine", name=engine, version="0.11").arguments(**arguments)
    if pool is not None:
        made.add("memory", component="kv_pool", owner="available", lifetime="worker", bytes=pool)
    return made


def budget(found: Incident) -> Remedy:
    flags = ("--gpu-memory-utilization", "--mem-fraction-static")
    named = [item for item in found.remedies if (item.setting or "").startswith(flags) or "cannot cure" in item.action]
    assert named, found.remedies
    return named[0]


def capture(made: Table, short: int) -> Incident:
    return made.stack(CAPTURE_FRAME).oom(**tables.figures(80 * GIB, short + 100 * MIB, 100 * MIB)).root()


@pytest.mark.parametrize(("engine", "argument"), [("vllm", "gpu_memory_utilization"), ("sglang", "mem_fraction_static")])
def test_detects_a_pool_too_small_to_give_up_what_was_short(engine: str, argument: str) -> None:
    found = capture(table(engine, 2 * GIB, **{argument: "0.9"}), 10 * GIB)
    remedy = budget(found)
    assert "cannot cure it alone" in remedy.action
    assert remedy.frees_bytes is not None and remedy.frees_bytes <= 2 * GIB
    assert remedy.setting is not None and float(remedy.setting.split()[-1]) == pytest.approx(0.88)
    assert "2.00 GiB" in remedy.arithmetic
    assert found.remedies[-1] is remedy, "what cures comes first"


@pytest.mark.parametrize(("engine", "argument"), [("vllm", "gpu_memory_utilization"), ("sglang", "mem_fraction_static")])
def test_ignores_a_pool_that_is_large_enough(engine: str, argument: str) -> None:
    remedy = budget(capture(table(engine, 40 * GIB, **{argument: "0.9"}), 10 * GIB))
    assert "cannot" not in remedy.action
    assert remedy.frees_bytes is not None and remedy.frees_bytes > 10 * GIB


def test_detects_that_one_request_needs_nearly_all_of_the_pool() -> None:
    made = table("vllm", 4 * GIB, gpu_memory_utilization="0.9")
    made.add("kv_pool", tier="device", total_tokens=100_000, max_concurrency=1.05)
    settings = [remedy.setting or "" for remedy in capture(made, GIB).remedies]
    assert settings and not any("--gpu-memory-utilization" in setting for setting in settings), "not a step is possible"
    made = table("vllm", 16 * GIB, gpu_memory_utilization="0.9")
    made.add("kv_pool", tier="device", total_tokens=100_000, max_concurrency=1.1)
    remedy = budget(capture(made, 4 * GIB))
    assert "cannot cure it alone" in remedy.action
    assert "one request of the maximum length needs 14.55 GiB" in remedy.arithmetic


def test_detects_a_budget_that_weights_and_activations_fill() -> None:
    made = table("vllm", None, gpu_memory_utilization="0.9")
    for component, amount in (("weights", 60 * GIB), ("activation", 9 * GIB)):
        made.add("memory", component=component, owner="steady", lifetime="worker", bytes=amount)
    remedy = budget(capture(made, 10 * GIB))
    assert "cannot cure it alone" in remedy.action
    assert "weights 60.00 GiB and activation 9.00 GiB" in remedy.arithmetic


@pytest.mark.parametrize(("engine", "argument"), [("vllm", "gpu_memory_utilization"), ("sglang", "mem_fraction_static")])
def test_never_prints_a_share_of_nothing(engine: str, argument: str) -> None:
    remedy = budget(capture(table(engine, None, **{argument: "0.1"}), 30 * GIB))
    assert remedy.setting is None or float(remedy.setting.split()[-1]) > 0
    assert "cannot cure it alone" in remedy.action


def profiling(*frames: tuple[str, str], pool: bool = False) -> Incident:
    made = Table(*WARMING, "profiling").arguments("engine", name="vllm", version="0.11")
    made.arguments(max_num_batched_tokens=8192, max_num_seqs=256, gpu_memory_utilization="0.9")
    if pool:
        made.add("lifecycle", phase="kv_allocated")
    return made.stack(*frames).oom(**tables.figures()).root()


def settings(found: Incident) -> list[str]:
    return [remedy.setting or "" for remedy in found.remedies if remedy.when == "change"]


def test_detects_a_profiling_run_before_the_pool() -> None:
    found = profiling(*PROFILE_FRAMES)
    assert settings(found) == ["--max-num-batched-tokens 4096", "--max-num-seqs 128", "--tensor-parallel-size 2"]


def test_detects_images_in_the_profiling_run() -> None:
    found = settings(profiling(*PROFILE_FRAMES, ENCODER_FRAME))
    assert found[0].startswith("--limit-mm-per-prompt")
    assert not any("utilization" in setting for setting in found)


def test_ignores_a_profile_once_there_is_a_pool() -> None:
    assert any("--gpu-memory-utilization" in setting for setting in settings(profiling(*PROFILE_FRAMES, pool=True)))
    assert any("--gpu-memory-utilization" in item for item in settings(profiling(PROFILE_FRAMES[0], CAPTURE_FRAME)))


def test_encoder_of_a_serving_worker() -> None:
    made = Table(*tables.SERVING).arguments("engine", name="vllm", version="0.11").report(0.2, 3)
    found = made.stack(STEP_FRAME, ENCODER_FRAME).oom(**tables.figures()).root()
    assert (found.oom_class, tables.causes(found)[0]) == ("prefill_spike", "multimodal_encoder")
    assert [item.split()[0] for item in settings(found)[:2]] == ["--limit-mm-per-prompt", "--mm-processor-kwargs"]
    assert "images" in found.remedies[0].action and "long" not in found.remedies[0].action


def test_prompt_logprobs_of_a_serving_worker() -> None:
    made = Table(*tables.SERVING).arguments("engine", name="vllm", version="0.11").report(0.2, 3)
    frame = ("/pkg/vllm/v1/worker/gpu_model_runner.py", "_get_prompt_logprobs_dict")
    found = made.stack(STEP_FRAME, frame).oom(**tables.figures()).root()
    assert settings(found)[0] == "--max-logprobs 0"
    assert "prompt_logprobs" in found.remedies[0].action
