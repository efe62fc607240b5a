"""Whose memory it is: other processes, this one under another pid, and an otherwise empty device."""

import pytest

from oomctl.analyzers.triage.foreign import dominates, foreign
from tests.triage import tables
from tests.triage.tables import GIB, LOAD_FRAME, LOADING, Table


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_detects_a_foreign_process(engine: str) -> None:
    found = tables.first("load_foreign_process", engine=engine, ranks=2)
    first = found.causes[0]
    assert first.cause == "foreign_process"
    assert first.bytes is not None and first.bytes > 0.5 * 80 * GIB
    assert found.remedies[0].when == "now" and "nvidia-smi" in (found.remedies[0].setting or "")


@pytest.mark.parametrize("scenario", ["load_container_pid", "load_weights_too_big", "warm_up_capture"])
def test_ignores_this_process_and_an_empty_device(scenario: str) -> None:
    for ranks in (1, 2):
        assert "foreign_process" not in tables.causes(tables.first(scenario, ranks=ranks))


def held(own_gib: int, others_gib: int, free_gib: int = 1) -> Table:
    """A load that fails beside a process of that size."""
    figures = {
        "requested_bytes": 2 * GIB, "total_bytes": (own_gib + others_gib + free_gib) * GIB, "free_bytes": free_gib * GIB,
        "own_process_bytes": own_gib * GIB, "allocated_bytes": (own_gib - 1) * GIB, "reserved_unallocated_bytes": 0,
    }  # fmt: skip
    return Table(*LOADING).stack(LOAD_FRAME).oom(**figures)


def test_detects_from_the_sum_alone_and_names_nobody() -> None:
    found = held(20, 59).root()
    assert tables.causes(found)[0] == "foreign_process"
    assert found.causes[0].bytes == 59 * GIB
    assert "(" not in found.causes[0].detail, "the failure's own error type is not a process"
    assert any(item.what == "which processes held the device" for item in found.missing)


def test_detects_names_where_they_are_told() -> None:
    table = held(20, 59).add("process", pid=7, name="python3 train.py", used_bytes=59 * GIB, own=False)
    found = table.root()
    assert "(python3 train.py)" in found.causes[0].detail
    assert not any(item.what == "which processes held the device" for item in found.missing)


def test_ignores_contexts_of_others() -> None:
    assert "foreign_process" not in tables.causes(held(77, 2).root())


def test_a_smaller_neighbour_is_not_the_first_cause() -> None:
    case = held(60, 19).case()
    assert foreign(case).bytes == 19 * GIB
    assert not dominates(case, foreign(case))
    assert tables.causes(held(60, 19).root())[-1] == "foreign_process"


def test_shares_count_not_bytes() -> None:
    for scale in (1, 4):
        table = Table(*LOADING).stack(LOAD_FRAME)
        figures = {"total_bytes": 20 * GIB * scale, "free_bytes": GIB * scale, "own_process_bytes": 4 * GIB * scale}
        assert tables.causes(table.oom(**figures, requested_bytes=2 * GIB * scale).root())[0] == "foreign_process"


def test_ignores_this_process_under_the_hosts_pid() -> None:
    table = held(79, 0).add("process", pid=400_000, used_bytes=79 * GIB, own=True)
    assert foreign(table.case()).bytes is None
