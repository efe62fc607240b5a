"""The host's memory: the kernel's word, a bare kill, and an allocator that failed on the CPU."""

from typing import Any

import pytest

from tests.triage import tables
from tests.triage.tables import GIB, LOADING, SERVING, Table

KERNEL: dict[str, Any] = {"resource": "host", "api": "kernel", "error_type": "oom_kill", "fatal": True}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_detects_the_kernels_word(engine: str) -> None:
    found = tables.first("host_kill_kernel", engine=engine, ranks=2)
    assert (found.verdict, found.resource, tables.causes(found)[0]) == ("oom", "host", "host_limit")
    assert found.confidence >= 0.8
    assert found.memory_at_oom is None, "what the process held of the host is not a ledger of the device"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_ignores_a_kill_without_the_kernels_word(engine: str) -> None:
    found = tables.first("host_kill_silent", engine=engine)
    assert (found.verdict, found.oom_class, found.resource) == (None, None, "host")
    assert found.confidence < 0.6
    assert any("kernel's log" in item.what for item in found.missing)
    assert "dmesg" in (found.remedies[0].setting or "")


def test_detects_the_kernels_word_after_the_supervisors() -> None:
    table = Table(*SERVING).add("lifecycle", phase="killed", signal=9)
    found = table.add("oom", **KERNEL, own_process_bytes=50 * GIB).triage()
    assert len(found) == 1
    assert (found[0].verdict, found[0].causes[0].bytes) == ("oom", 50 * GIB)


def test_ignores_the_kill_of_a_shutdown() -> None:
    table = Table(*SERVING).add("fault", code="engine_dead", fatal=True).add("lifecycle", phase="killed", signal=9)
    assert [(item.verdict, item.resource) for item in table.triage()] == [(None, None)], (
        "a death, and none of the host's memory"
    )


@pytest.mark.parametrize(
    ("detail", "end", "killed"),
    [
        ("RuntimeError: Executor failed.", {"signal": 9}, True),
        ("RuntimeError: cancelled", {}, True),
        ("RuntimeError: worker 3 has crashed", {}, True),
        ("RuntimeError: Worker failed with error 'shapes do not fit'", {"signal": 9}, False),
        ("ValueError: the process failed: no such option", {"signal": 9}, False),
        ("RuntimeError: Executor failed.", {"signal": 15}, False),
        ("RuntimeError: Executor failed.", {"exit_code": 1}, False),
    ],
)
def test_a_recorder_sees_a_kill_later_than_those_who_miss_the_process(
    detail: str, end: dict[str, Any], killed: bool
) -> None:
    table = Table(*SERVING).add("fault", code="exception", detail=detail, rank=0)
    table.add("fault", code="engine_dead", fatal=True).add("lifecycle", phase="killed", **end)
    assert table.root().resource is None, "in a log, the order of lines is that of what happened"
    table.rows = [row | {"source": "host"} for row in table.rows if row["kind"] != "log"]
    assert table.root().resource == ("host" if killed else None)


def test_ignores_a_kill_after_a_failed_allocation() -> None:
    table = Table(*LOADING).oom(**tables.figures()).add("lifecycle", phase="killed", signal=9)
    found = table.triage()
    assert [(item.verdict, item.resource) for item in found] == [("oom", "device")]


def test_detects_an_allocation_that_failed_on_the_host() -> None:
    table = Table(*SERVING).oom(resource="host", api="cpu_allocator", error_type="RuntimeError", requested_bytes=GIB)
    found = table.root()
    assert (found.verdict, found.resource, tables.causes(found)) == ("oom", "host", ["host_allocation"])


def test_a_vanished_process_is_less_sure_than_a_killed_one() -> None:
    killed = Table(*SERVING).add("lifecycle", phase="killed", signal=9).root()
    vanished = Table(*SERVING).add("lifecycle", phase="killed").root()
    assert vanished.confidence < killed.confidence < 0.6
