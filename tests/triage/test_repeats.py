"""Crash loops: alike failures of successive starts are told once, the newest in full."""

from tests.triage import tables
from tests.triage.tables import LOADING, SERVING, STEP_FRAME, Table


def loop(starts: int) -> Table:
    table = Table(*LOADING).oom(**tables.figures())
    for _ in range(starts - 1):
        table.restart().add("lifecycle", phase="loading").oom(**tables.figures())
    return table


def test_detects_a_crash_loop() -> None:
    (found,) = loop(20).triage()
    assert (found.incarnation, found.repeats) == ("20", 19)
    assert found.summary.endswith("; 19 earlier starts failed the same way.")
    assert loop(2).root().summary.endswith("; 1 earlier start failed the same way.")


def test_ignores_a_start_that_failed_otherwise() -> None:
    table = loop(2).restart().add("lifecycle", phase="loading")
    table.oom(resource="host", api="cpu_allocator", error_type="RuntimeError")
    assert [(item.incarnation, item.repeats) for item in table.triage()] == [("2", 1), ("3", 0)]


def test_ignores_a_start_that_did_not_fail_in_between() -> None:
    table = loop(1).restart().add("lifecycle", phase="loading").restart().add("lifecycle", phase="loading")
    assert [item.repeats for item in table.oom(**tables.figures()).triage()] == [0, 0]


def test_ignores_what_was_survived() -> None:
    table = Table(*SERVING).stack(STEP_FRAME).oom(**tables.figures(), fatal=None).report(0.3, 4)
    table.restart().add("lifecycle", phase="ready").oom(**tables.figures(), fatal=None).report(0.3, 4)
    assert [item.repeats for item in table.triage()] == [0, 0]


def test_keeps_the_newest_of_many() -> None:
    found = loop(230).root()
    assert found.incarnation == "230"
    assert found.repeats >= 199
