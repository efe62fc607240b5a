"""OOM006 recovery: old and new overlap; and whether the memory is an earlier life's."""

import pytest

from oomctl.analyzers.triage import recovery
from tests.triage import tables
from tests.triage.tables import GIB, LOAD_FRAME, SERVING, STEP_FRAME, WAKE_FRAME, Table


@pytest.mark.parametrize(
    ("scenario", "engine", "cause"),
    [
        ("recovery_orphan_load", "vllm", "earlier_incarnation"),
        ("recovery_wake_up", "vllm", "wake_up_overlap"),
        ("recovery_update_weights", "vllm", "weight_update_overlap"),
        ("recovery_update_weights", "sglang", "weight_update_overlap"),
    ],
)
def test_detects_recovery(scenario: str, engine: str, cause: str) -> None:
    found = tables.first(scenario, engine=engine, ranks=2)
    assert (found.oom_class, found.code, tables.causes(found)[0]) == ("recovery", "OOM006", cause)


@pytest.mark.parametrize("scenario", ["load_staging_copy", "load_foreign_process", "gate_start_memory", "warm_up_capture"])
def test_ignores_look_alikes(scenario: str) -> None:
    found = tables.first(scenario)
    assert found.oom_class != "recovery"
    assert "earlier_incarnation" not in tables.causes(found)


def test_detects_a_wake_up_by_its_frame() -> None:
    result = recovery.assess(Table(*SERVING, "sleeping", "waking").stack(STEP_FRAME, WAKE_FRAME, LOAD_FRAME).oom().case())
    assert result.score > 0.8
    assert result.causes[0].cause == "wake_up_overlap"


def test_ignores_a_first_load() -> None:
    assert recovery.assess(Table("loading").stack(LOAD_FRAME).oom().case()).evidence == []


def second_life(pid_of_neighbour: int) -> Table:
    """A worker that stopped, and its next start, in which a process of that pid holds most of the device."""
    table = Table(*SERVING)
    table.add("lifecycle", phase="stopped", text="(EngineCore_DP0 pid=4711) INFO stopped")
    table.restart().add("lifecycle", phase="loading").stack(LOAD_FRAME)
    held = tables.figures() | {"own_process_bytes": 20 * GIB, "allocated_bytes": 18 * GIB}
    table.oom(**held)
    return table.add("process", pid=pid_of_neighbour, used_bytes=59 * GIB, own=False)


def test_detects_an_earlier_incarnation_by_its_pid() -> None:
    found = second_life(4711).root()
    assert (found.oom_class, tables.causes(found)[0]) == ("recovery", "earlier_incarnation")
    assert found.causes[0].bytes == 59 * GIB
    assert any("process 4711 is an earlier incarnation" in item.says for item in found.evidence)


def test_ignores_another_pid() -> None:
    found = second_life(99).root()
    assert tables.causes(found)[0] == "foreign_process"
    assert found.oom_class != "recovery"


def test_detects_an_orphan_behind_a_gate() -> None:
    found = tables.first("gate_start_orphan", ranks=2)
    assert (found.verdict, found.oom_class, tables.causes(found)[0]) == ("capacity_gate", "recovery", "earlier_incarnation")


def test_ignores_a_clean_restart() -> None:
    table = Table(*SERVING).add("lifecycle", phase="stopped").restart().add("lifecycle", phase="loading").stack(LOAD_FRAME)
    found = table.oom(**tables.figures()).root()
    assert (found.oom_class, found.incarnation) == ("load_time", "2")
    assert "earlier_incarnation" not in tables.causes(found)
