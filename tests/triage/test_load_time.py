"""OOM001 load_time."""

import pytest

from oomctl.analyzers.triage import load_time
from tests.triage import tables
from tests.triage.tables import LOAD_FRAME, LOADING, SERVING, STAGING_FRAME, STEP_FRAME, UNKNOWN_FRAME, WAKE_FRAME, Table


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    ("scenario", "cause"),
    [
        ("load_staging_copy", "staging_copy"),
        ("load_weights_too_big", "weights_exceed_device"),
        ("load_container_pid", "staging_copy"),
    ],
)
def test_detects_load(scenario: str, cause: str, engine: str) -> None:
    found = tables.first(scenario, engine=engine, ranks=2)
    assert (found.oom_class, found.code, found.resource, tables.causes(found)[0]) == (
        "load_time",
        "OOM001",
        "device",
        cause,
    )
    assert found.confidence >= 0.7


@pytest.mark.parametrize("scenario", ["recovery_update_weights", "recovery_orphan_load", "warm_up_capture"])
def test_ignores_what_also_loads(scenario: str) -> None:
    assert tables.first(scenario).oom_class != "load_time"


def test_detects_the_frame_alone() -> None:
    case = Table().stack(LOAD_FRAME).oom().case()
    result = load_time.assess(case)
    assert result.score >= 0.5
    assert [row.query for item in result.evidence for row in item.cites] == ["frames"]


def test_detects_the_stage_alone_less_surely() -> None:
    with_frame = Table(*LOADING).stack(LOAD_FRAME).oom().root()
    stage_only = Table(*LOADING).stack(UNKNOWN_FRAME).oom().root()
    assert with_frame.oom_class == "load_time"
    assert stage_only.oom_class in ("load_time", None)
    assert stage_only.confidence < with_frame.confidence


def test_detects_the_staging_copy() -> None:
    case = Table(*LOADING).stack(LOAD_FRAME, STAGING_FRAME).oom().case()
    assert load_time.assess(case).causes[0].cause == "staging_copy"


def test_ignores_a_load_inside_a_wake_up() -> None:
    case = Table(*SERVING).stack(STEP_FRAME, WAKE_FRAME, LOAD_FRAME).oom().case()
    assert load_time.assess(case).score < 0.5


def test_ignores_a_serving_worker() -> None:
    assert load_time.assess(Table(*SERVING).stack(UNKNOWN_FRAME).oom().case()).evidence == []


def test_ignores_exhausted_blocks() -> None:
    case = Table(*LOADING).oom(resource="kv_blocks", api="engine", error_type="no_blocks").case()
    assert load_time.assess(case).score < 0.1
