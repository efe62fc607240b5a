"""Engines beside vLLM and SGLang: settings in the right direction, and no promise that is empty."""

import pytest

from oomctl.schemas.verdict import Incident
from tests.triage import tables
from tests.triage.tables import CAPTURE_FRAME, LOAD_FRAME, LOADING, SERVING, STEP_FRAME, WARMING, Table

TRANSFER_FRAME = ("tensorrt_llm::batch_manager::kv_cache_manager", "getOrAllocateBuffers")


def failed(engine: str, *phases: str, frame: tuple[str, str]) -> Incident:
    table = Table(*phases)
    if engine:
        table.arguments("engine", name=engine, version="1")
    return table.stack(frame).oom(**tables.figures(), fatal=None).root()


def settings(found: Incident) -> list[str]:
    return [remedy.setting or "" for remedy in found.remedies if remedy.when == "change"]


@pytest.mark.parametrize(
    ("engine", "first"),
    [
        ("tgi", "--max-batch-prefill-tokens lower"),
        ("trtllm", "kv_cache_config.free_gpu_memory_fraction lower"),
        ("lmdeploy", "--cache-max-entry-count lower"),
        ("llamacpp", "--ctx-size lower"),
        ("ollama", "num_ctx lower"),
    ],
)
def test_settings_of_the_engine(engine: str, first: str) -> None:
    found = failed(engine, *WARMING, "capturing", frame=CAPTURE_FRAME)
    assert found.oom_class == "warm_up"
    assert settings(found)[0].startswith(first)
    assert found.remedies[0].action.startswith("Start it with the first setting below")


def test_a_transfer_wants_larger_buffers() -> None:
    found = failed("trtllm", *SERVING, frame=TRANSFER_FRAME)
    assert (found.oom_class, settings(found)[0]) == ("recovery", "cache_transceiver_config.max_tokens_in_buffer higher")


@pytest.mark.parametrize(("phases", "frame"), [(LOADING, LOAD_FRAME), ((*WARMING, "capturing"), CAPTURE_FRAME)])
def test_no_empty_promise(phases: tuple[str, ...], frame: tuple[str, str]) -> None:
    found = failed("", *phases, frame=frame)
    assert settings(found) == []
    assert found.remedies[0].action.startswith("Look for")
    assert "below" not in found.remedies[0].action


def test_an_unknown_class_of_a_server_without_settings() -> None:
    found = failed("", *SERVING, frame=STEP_FRAME)
    assert not any("below" in remedy.action for remedy in found.remedies)
