"""What looks like memory and is not, and what is nothing at all."""

import pytest

from tests.triage import tables
from tests.triage.tables import SERVING, Table


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_detects_not_oom(engine: str) -> None:
    found = tables.first("not_oom_illegal_access", engine=engine, ranks=2)
    assert (found.verdict, found.oom_class, found.resource, found.causes) == ("not_oom", None, None, [])
    assert found.confidence >= 0.7
    assert "CUDA_LAUNCH_BLOCKING=1" in {remedy.setting for remedy in found.remedies}
    assert found.memory_at_oom is None


@pytest.mark.parametrize("scenario", ["healthy", "healthy_busy", "healthy_quotes"])
def test_ignores_health(scenario: str) -> None:
    for seed in range(3):
        assert tables.of(scenario, seed=seed, ranks=2) == []


@pytest.mark.parametrize("code", ["illegal_access", "capture_failed", "kernel_resources"])
def test_detects_faults_that_are_not_memory(code: str) -> None:
    assert Table(*SERVING).add("fault", code=code, fatal=True).root().verdict == "not_oom"


@pytest.mark.parametrize("code", ["nccl_timeout", "watchdog"])
def test_silence_stays_undetermined(code: str) -> None:
    found = Table(*SERVING).add("fault", code=code, fatal=True).root()
    assert (found.verdict, found.oom_class) == (None, None)
    assert found.confidence < 0.6 and found.missing


@pytest.mark.parametrize("code", ["exception"])
def test_ignores_an_exception_that_says_nothing_of_memory(code: str) -> None:
    assert Table(*SERVING).add("fault", code=code, fatal=True).triage() == []


def test_a_failed_allocation_outranks_the_fault_before_it() -> None:
    table = Table(*SERVING).add("fault", code="illegal_access").oom(**tables.figures())
    found = table.triage()
    assert [item.verdict for item in found] == ["oom"]


def test_an_empty_table_has_no_incident() -> None:
    assert Table().triage() == []
    assert Table(*SERVING).triage() == []
