"""Engines that died of something else, and how the log's last lines are read."""

import pytest

from tests.triage import tables
from tests.triage.logs import triaged
from tests.triage.tables import LOADING, SERVING, STEP_FRAME, Table


def dead(*details: str) -> Table:
    table = Table(*LOADING)
    for detail in details:
        table.add("fault", code="exception", detail=detail)
    return table.add("fault", code="engine_dead", detail="Engine core initialization failed", fatal=True)


def test_detects_what_it_died_of() -> None:
    (found,) = dead("ValueError: block_size must be a multiple of 32", "RuntimeError: see above").triage()
    assert (found.verdict, found.resource, found.survived) == ("not_oom", None, False)
    assert found.summary == "Not a memory death: ValueError: block_size must be a multiple of 32"
    assert found.evidence[0].cites[0].line == 3


@pytest.mark.parametrize(
    "detail",
    [
        "RuntimeError: NCCL error: remote process exited", "ConnectionResetError: peer", "ActorDiedError: x died",
        "RuntimeError: Executor failed.", "RuntimeError: worker 3 has crashed",
    ],
)  # fmt: skip
def test_does_not_judge_what_may_follow_from_memory(detail: str) -> None:
    assert dead(detail).root().verdict is None


def test_does_not_judge_without_a_reason() -> None:
    assert dead().root().verdict is None


def test_ignores_an_engine_that_was_stopped() -> None:
    assert dead("KeyboardInterrupt").triage() == []


def test_ignores_the_deaths_of_those_that_ran_out_of_memory() -> None:
    table = Table(*SERVING).stack(STEP_FRAME).oom(**tables.figures())
    table.add("fault", code="engine_dead", detail="EngineDeadError", fatal=True)
    (found,) = table.triage()
    assert found.verdict == "oom"


def test_stands_behind_what_is_about_memory() -> None:
    table = dead("ValueError: no such option").restart().add("lifecycle", phase="loading")
    table.stack(STEP_FRAME).oom(**tables.figures())
    assert [item.verdict for item in table.triage()] == ["oom", "not_oom"]


def test_one_report_before_the_end_is_no_survival() -> None:
    table = Table(*SERVING).stack(STEP_FRAME).oom(**tables.figures(), fatal=None).report(0.3, 4)
    table.add("fault", code="engine_dead", fatal=True)
    assert table.root().survived is False


def test_an_exception_that_nobody_caught_is_one_failure() -> None:
    (found,) = triaged(
        "terminate called after throwing an instance of 'std::bad_alloc'\n"
        "  what():  std::bad_alloc\n"
        "Aborted (core dumped)\n"
    )
    assert found.resource == "host"
    assert found.cascade is not None and found.cascade.lines == (3,), (
        "what() explains its terminate line; the abort follows"
    )


def test_its_figures_stand_in_the_second_line() -> None:
    (found,) = triaged(
        "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n"
        "  what():  CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
        "1.12 GiB is free.\n"
    )
    assert (found.requested_bytes, found.cascade) == (2 * 2**30, None)


def test_a_coarser_print_replaces_no_finer_one() -> None:
    table = Table(*SERVING)
    for amount, resolution in ((408_000_000, 5_000_000), (429_496_730, 53_687_091)):
        table.add("memory", component="graph_pool", owner="estimate", bytes=amount, resolution_bytes=resolution)
    case = table.stack(STEP_FRAME).oom(**tables.figures()).case()
    assert [row["bytes"] for row in case.ask("components")] == [408_000_000]
