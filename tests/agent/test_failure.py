"""Exceptions as rows: which are for memory, of what, and where they happened."""

from pathlib import Path

import pytest

from oomctl.collectors.agent import failure
from oomctl.collectors.agent.decode import Record
from oomctl.collectors.agent.reader import read_ring
from tests.agent.rings import make_rings


class OutOfMemoryError(RuntimeError):
    """As torch names it."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), ("device", "torch")),
        (OutOfMemoryError("a wording of tomorrow"), ("device", "torch")),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), ("device", "cublas")),
        (RuntimeError("CUDA error: out of memory"), ("device", "cuda")),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
            ("host", "cpu_allocator"),
        ),
        (RuntimeError("ScratchPadManager: aligned_alloc failed for size 64"), ("host", "cpu_allocator")),
        (RuntimeError("std::bad_alloc"), ("host", "libc")),
        (OSError(12, "Cannot allocate memory"), ("host", "libc")),
        (MemoryError(), ("host", "python")),
        (RuntimeError("shape mismatch"), None),
        (RuntimeError("could not create a primitive"), None),
        (TimeoutError("timed out"), None),
    ],
    ids=str,
)
def test_which_are_for_memory(error: Exception, expected: tuple[str, str] | None) -> None:
    assert failure.resource_of(error) == expected


def test_a_doubtful_message_counts_where_the_address_space_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("could not create a primitive")
    monkeypatch.setattr(failure, "address_space_left", lambda: failure.TIGHT_BYTES - 1)
    assert failure.resource_of(error) == ("host", "onednn")
    monkeypatch.setattr(failure, "address_space_left", lambda: failure.TIGHT_BYTES)
    assert failure.resource_of(error) is None


def recorded(folder: Path, error: Exception) -> list[Record]:
    ring = make_rings(folder, capacity=512).mine()
    failure.record(ring, error, fatal=True, requests=7)
    assert ring.path is not None
    return read_ring(ring.path)[1].records


def fail(depth: int) -> None:
    if depth:
        fail(depth - 1)
    raise OutOfMemoryError("CUDA out of memory. " + "x" * 20_000)


def caught(depth: int, wrapped: bool) -> Exception:
    try:
        try:
            fail(depth)
        except OutOfMemoryError as error:
            if wrapped:
                raise RuntimeError("the worker failed") from error
            raise
    except Exception as error:
        return error
    raise AssertionError


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_root_is_taken_with_its_stack(wrapped: bool, tmp_path: Path) -> None:
    *stack, oom = recorded(tmp_path, caught(3, wrapped))
    assert (oom.kind.name, oom.values["resource"], oom.values["fatal"], oom.values["requests"]) == (
        "oom",
        "device",
        True,
        7,
    )
    assert oom.values["error_type"].endswith("OutOfMemoryError")
    assert len(oom.values["message"]) == failure.MAX_MESSAGE
    assert [frame.values["function"] for frame in stack] == ["caught", "fail", "fail", "fail", "fail"]
    assert [frame.values["depth"] for frame in stack] == [0, 1, 2, 3, 4]
    assert {frame.values["stack_id"] for frame in stack} == {oom.values["stack_id"]}
    assert stack[-1].values["code"].startswith("raise OutOfMemoryError")


def test_of_a_deep_stack_the_innermost_frames_are_kept(tmp_path: Path) -> None:
    *stack, _ = recorded(tmp_path, caught(200, False))
    assert len(stack) == failure.MAX_FRAMES
    assert {frame.values["function"] for frame in stack} == {"fail"}


def test_another_exception_is_a_fault(tmp_path: Path) -> None:
    (fault,) = recorded(tmp_path, ValueError("shape mismatch"))
    assert (fault.kind.name, fault.values["code"], fault.values["fatal"]) == ("fault", "exception", True)
    assert fault.values["detail"] == "ValueError: shape mismatch"
