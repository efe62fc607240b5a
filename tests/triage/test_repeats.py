"""Crash loops: alike failures of successive starts are told once, the newest in full."""

import pytest

from oomctl.analyzers.triage import limits, survey
from oomctl.analyzers.triage.limits import MAX_INCIDENTS
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


def test_counts_all_of_many() -> None:
    """More than are looked into one by one."""
    found = loop(MAX_INCIDENTS + 61).root()
    assert (found.incarnation, found.repeats) == (str(MAX_INCIDENTS + 61), MAX_INCIDENTS + 60)
    assert f"; {MAX_INCIDENTS + 60} earlier starts failed the same way." in found.summary


def test_says_how_many_others_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that began otherwise are no repeats; the newest of each worker is looked into before an older one."""
    monkeypatch.setattr(limits, "MAX_INCIDENTS", 3)
    table = Table(*LOADING).oom(resource="host", api="cpu_allocator", error_type="RuntimeError")
    for _ in range(4):
        table.restart().add("lifecycle", phase="loading").oom(**tables.figures())
    incidents, omitted = survey(table.connection())
    assert [(item.incarnation, item.repeats) for item in incidents] == [("5", 3)]
    assert omitted == 1


def test_every_source_is_looked_into_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_INCIDENTS", 2)
    groups = [[{"stream": s, "worker": s, "what": "oom", "name": "x", "resource": "device"}] for s in "aaab"]
    kept, cut = limits.split(groups)
    assert [group[0]["stream"] for group in kept] == ["a", "b"]
    assert limits.alike(kept, cut) == ([2, 0], 0)
