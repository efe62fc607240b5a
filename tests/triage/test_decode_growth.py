"""OOM004 decode_growth."""

import pytest

from oomctl.analyzers.triage import decode_growth
from tests.triage import tables
from tests.triage.tables import SERVING, STEP_FRAME, Table

SCENARIOS = [
    ("decode_preemption_storm", "vllm", True),
    ("decode_retractions", "sglang", True),
    ("decode_exhausted", "sglang", False),
    ("decode_silent_stall", "vllm", True),
]


@pytest.mark.parametrize(("scenario", "engine", "survived"), SCENARIOS)
def test_detects_decode(scenario: str, engine: str, survived: bool) -> None:
    found = tables.first(scenario, engine=engine, ranks=2)
    assert (found.oom_class, found.code, found.resource) == ("decode_growth", "OOM004", "kv_blocks")
    assert found.survived is survived


@pytest.mark.parametrize("scenario", ["healthy_busy", "prefill_block_shortage", "gate_request_too_large"])
def test_ignores_look_alikes(scenario: str) -> None:
    assert all(found.oom_class != "decode_growth" for found in tables.of(scenario))


def pressed(times: int) -> Table:
    table = Table(*SERVING).report(0.97, 20, 0)
    for number in range(times):
        table.report(0.99, 19 - number, 1 + number)
    return table


def test_detects_silent_preemption() -> None:
    found = pressed(3).root()
    assert (found.verdict, found.oom_class, found.survived) == ("oom", "decode_growth", True)
    assert tables.causes(found) == ["preemption_storm"]
    assert any(missing.collector == "prometheus" for missing in found.missing)


def test_ignores_one_report_of_it() -> None:
    assert pressed(1).triage() == []


def test_ignores_requests_that_finish() -> None:
    table = Table(*SERVING)
    for running in (20, 18, 15, 11):
        table.report(0.97, running, 0)
    assert table.triage() == []


def test_ignores_a_queue_in_front_of_a_half_empty_pool() -> None:
    table = Table(*SERVING)
    for number in range(5):
        table.report(0.5, 20 - number, number)
    assert table.triage() == []


def test_detects_the_error_after_the_pressure_as_one_incident() -> None:
    table = pressed(4).oom(resource="kv_blocks", api="engine", error_type="decode_out_of_memory", requested_tokens=7)
    found = table.triage()
    assert len(found) == 1
    assert (found[0].oom_class, found[0].survived) == ("decode_growth", False)


def test_ignores_the_device() -> None:
    case = Table(*SERVING).report(0.99, 4).stack(STEP_FRAME).oom(**tables.figures()).case()
    assert decode_growth.assess(case).evidence == []


def test_against_is_said_when_prompts_were_admitted() -> None:
    case = Table(*SERVING).report(0.99, 4).oom(resource="kv_blocks", error_type="prefill_out_of_memory").case()
    result = decode_growth.assess(case)
    assert result.against and result.score < 0.5
