"""Whether the worker went on, and which failures belong together."""

import pytest

from oomctl.analyzers.triage import triage
from tests.scenarios import Scenario, catalogue
from tests.triage import tables
from tests.triage.tables import LOADING, SERVING, STEP_FRAME, Table

SURVIVED = [scenario for scenario in catalogue() if scenario.label["survived"]]
DIED = [scenario for scenario in catalogue() if scenario.label["survived"] is False]


@pytest.mark.parametrize("scenario", SURVIVED, ids=lambda scenario: scenario.name)
def test_detects_survival(scenario: Scenario) -> None:
    found = tables.first(scenario.name, ranks=2)
    assert found.survived is True
    shown = [item for item in found.evidence if item.supports == "survived"]
    assert shown and shown[0].cites


@pytest.mark.parametrize("scenario", DIED, ids=lambda scenario: scenario.name)
def test_ignores_survival_of_the_dead(scenario: Scenario) -> None:
    assert tables.first(scenario.name, ranks=2).survived in (False, None)


def test_detects_that_a_caught_error_was_survived() -> None:
    table = Table(*SERVING).stack(STEP_FRAME).oom(**tables.figures(), fatal=None).report(0.3, 4)
    found = table.root()
    assert found.survived is True
    assert "went on" in found.summary


def test_ignores_reports_before_the_failure() -> None:
    table = Table(*SERVING).report(0.3, 4).stack(STEP_FRAME).oom(**tables.figures(), fatal=None)
    assert table.root().survived is None


def test_ignores_reports_of_the_next_life() -> None:
    table = Table(*SERVING).stack(STEP_FRAME).oom(**tables.figures(), fatal=None)
    table.add("fault", code="engine_dead", fatal=True).restart().add("lifecycle", phase="ready").report(0.3, 4)
    assert table.root().survived is False


def test_copies_of_other_ranks_join_the_cascade() -> None:
    table = Table(*SERVING).stack(STEP_FRAME)
    for rank in range(4):
        table.oom(rank=rank, **tables.figures())
    found = table.triage()
    assert len(found) == 1
    assert found[0].cascade is not None
    assert (found[0].cascade.failures, found[0].cascade.ranks) == (3, ("TP0", "TP1", "TP2", "TP3"))


def test_progress_between_two_failures_separates_them() -> None:
    table = Table(*SERVING).stack(STEP_FRAME).oom(**tables.figures(), fatal=None)
    table.report(0.3, 4).oom(**tables.figures(), fatal=True)
    found = table.triage()
    assert [item.survived for item in found] == [False, True], "the fatal one first"


def test_a_restart_separates_too_and_last_takes_the_newest() -> None:
    table = Table(*LOADING).oom(**tables.figures()).restart().add("lifecycle", phase="loading")
    table.oom(resource="host", api="cpu_allocator", error_type="RuntimeError")
    connection = table.connection()
    assert [item.incarnation for item in triage(connection)] == ["1", "2"]
    assert [item.incarnation for item in triage(connection, last=True)] == ["2"]


def test_a_survivable_retraction_is_one_incident_however_often() -> None:
    table = Table(*SERVING)
    for _ in range(5):
        table.add("oom", resource="kv_blocks", api="engine", error_type="retraction", fatal=False).report(0.97, 9)
    found = table.triage()
    assert len(found) == 1
    assert (found[0].oom_class, found[0].survived) == ("decode_growth", True)


MESSAGE = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 80.00 GiB"


def repeated(message: str, **said_by: object) -> int | None:
    """The line of the root, where line 6 is what was said before, and line 8 the exception of a traceback."""
    table = Table(*SERVING).add("oom", resource="device", api="torch", error_type="", message=message)
    table.rows[-2].update(said_by)
    table.stack(STEP_FRAME).oom(**tables.figures(), message=MESSAGE)
    return table.root().evidence[0].cites[0].line


def test_the_traceback_is_the_root_and_not_who_repeats_it_before() -> None:
    assert repeated(f"worker failed: {MESSAGE}, see its log") == 8
    assert repeated(MESSAGE, rank_name="APIServer") == 8


def test_ignores_another_failure_before_it() -> None:
    assert repeated(MESSAGE.replace("2.00", "4.00")) == 6
    assert repeated(MESSAGE, rank=0, rank_name="TP0") == 6
    assert repeated("") == 6
