"""OOM002 warm_up."""

import pytest

from oomctl.analyzers.triage import warm_up
from tests.triage import tables
from tests.triage.tables import (
    AUTOTUNE_FRAME,
    CAPTURE_FRAME,
    LOAD_FRAME,
    SERVING,
    STEP_FRAME,
    UNKNOWN_FRAME,
    WARMING,
    Table,
)


@pytest.mark.parametrize(
    ("scenario", "engine", "cause"),
    [
        ("warm_up_capture", "vllm", "graph_capture"),
        ("warm_up_capture", "sglang", "graph_capture"),
        ("warm_up_sampler", "vllm", "sampler_warm_up"),
        ("warm_up_lazy_autotune", "vllm", "autotuning"),
        ("warm_up_lazy_autotune", "sglang", "autotuning"),
        ("warm_up_survived", "vllm", "autotuning"),
    ],
)
def test_detects_warm_up(scenario: str, engine: str, cause: str) -> None:
    found = tables.first(scenario, engine=engine, ranks=2)
    assert (found.oom_class, found.code, tables.causes(found)[0]) == ("warm_up", "OOM002", cause)


@pytest.mark.parametrize("scenario", ["load_staging_copy", "prefill_long_prompt", "gate_request_too_large", "healthy"])
def test_ignores_what_is_not_warm_up(scenario: str) -> None:
    assert all(found.oom_class != "warm_up" for found in tables.of(scenario))


def test_detects_a_capture() -> None:
    result = warm_up.assess(Table(*WARMING, "capturing").stack(LOAD_FRAME, CAPTURE_FRAME).oom().case())
    assert result.score > 0.8
    assert result.causes[0].cause == "graph_capture"


def test_detects_lazy_tuning_in_the_first_request() -> None:
    found = Table(*SERVING).stack(STEP_FRAME, AUTOTUNE_FRAME).oom().root()
    assert found.oom_class == "warm_up"
    assert tables.causes(found)[0] == "autotuning"


def test_detects_the_stage_alone_and_says_what_it_rests_on() -> None:
    result = warm_up.assess(Table(*WARMING, "capturing").stack(UNKNOWN_FRAME).oom().case())
    assert result.score == pytest.approx(0.5)
    assert {row.query for item in result.evidence for row in item.cites} == {"phases"}
    assert result.causes[0].cause == "graph_capture"


def test_ignores_a_ready_server() -> None:
    result = warm_up.assess(Table(*SERVING).stack(STEP_FRAME).oom().case())
    assert result.evidence == [] and result.against


def test_ignores_running_out_of_blocks() -> None:
    case = Table(*WARMING).oom(resource="kv_blocks", api="engine", error_type="no_blocks").case()
    assert warm_up.assess(case).score < 0.1


def test_ignores_a_device_taken_by_an_earlier_life() -> None:
    table = Table(*SERVING).add("lifecycle", phase="stopped").restart()
    table.add("lifecycle", phase="loading").add("device", total_bytes=80 * tables.GIB, used_bytes=60 * tables.GIB)
    table.add("lifecycle", phase="weights_loaded").stack(UNKNOWN_FRAME).oom()
    assert table.root().oom_class != "warm_up"
