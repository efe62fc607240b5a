"""A limit that the process sets on itself, and libraries that allocate outside the framework's cache."""

import pytest

from oomctl.schemas.verdict import Incident
from tests.triage import tables
from tests.triage.tables import CAPTURE_FRAME, GIB, LOADING, MIB, SERVING, STEP_FRAME, WARMING, Table

CAP = {
    "requested_bytes": 2 * GIB, "total_bytes": 80 * GIB, "free_bytes": 30 * GIB, "own_process_bytes": 9 * GIB,
    "limit_bytes": 8 * GIB, "allocated_bytes": 7 * GIB, "reserved_unallocated_bytes": 100 * MIB,
}  # fmt: skip


def engine(table: Table, name: str = "vllm") -> Table:
    return table.arguments("engine", name=name, version="0.11").arguments(gpu_memory_utilization="0.9")


def test_detects_a_cap() -> None:
    found = Table(*LOADING).oom(**CAP).root()
    assert tables.causes(found)[0] == "memory_fraction_cap"
    assert "foreign_process" not in tables.causes(found), "others hold 41 GiB, and 30 GiB were free"
    change = next(remedy for remedy in found.remedies if remedy.when == "change")
    assert "cap" in change.action and "set_per_process_memory_fraction" in (change.setting or "")


def test_ignores_a_device_without_a_cap() -> None:
    found = Table(*LOADING).oom(**{key: value for key, value in CAP.items() if key != "limit_bytes"}).root()
    assert "memory_fraction_cap" not in tables.causes(found)


def test_ignores_a_cap_that_was_not_reached() -> None:
    found = Table(*LOADING).oom(**(CAP | {"limit_bytes": 72 * GIB, "free_bytes": GIB})).root()
    assert tables.causes(found)[0] == "foreign_process"


def library(api: str) -> Incident:
    table = engine(Table(*SERVING)).report(0.2, 3).stack(STEP_FRAME, ("/pkg/sglang/srt/runner.py", "forward_extend"))
    return table.oom(api=api, error_type="RuntimeError", message="CUBLAS_STATUS_ALLOC_FAILED").root()


@pytest.mark.parametrize("api", ["cublas", "cudnn", "cusparse"])
def test_detects_a_library_workspace(api: str) -> None:
    found = library(api)
    assert (found.oom_class, tables.causes(found)[0]) == (None, "library_workspace")
    settings = [remedy.setting or "" for remedy in found.remedies]
    assert any("--gpu-memory-utilization" in setting for setting in settings)
    assert not any("--max-num-batched-tokens" in setting for setting in settings)


def test_a_library_keeps_the_class_that_other_evidence_tells() -> None:
    table = engine(Table(*WARMING, "capturing")).stack(CAPTURE_FRAME)
    found = table.oom(api="cublas", error_type="RuntimeError").root()
    assert (found.oom_class, tables.causes(found)[0]) == ("warm_up", "library_workspace")


def test_ignores_the_frameworks_own_allocation() -> None:
    assert "library_workspace" not in tables.causes(library("torch"))
