"""The framework's message in the forms that PyTorch has printed since 1.0; the figures are this test's own."""

# ruff: noqa: E501  a message is one line

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.collectors.artifacts.logs.torch_message import TorchMessage, looks_like, parse

MIB, GIB = 2**20, 2**30
ADVICE = (
    "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html)"
)


def gib(number: float) -> int:
    return round(number * GIB)


def mib(number: float) -> int:
    return round(number * MIB)


FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "1.0 cached": (
        "CUDA out of memory. Tried to allocate 96.25 MiB (GPU 3; 11.17 GiB total capacity; 9.52 GiB already allocated; "
        "41.06 MiB free; 812.50 MiB cached)",
        {
            "requested": mib(96.25),
            "total": gib(11.17),
            "free": mib(41.06),
            "allocated": gib(9.52),
            "unallocated": mib(812.5),
        },
    ),
    "1.5 reserved in total": (
        "CUDA out of memory. Tried to allocate 1.25 GiB (GPU 1; 31.75 GiB total capacity; 27.40 GiB already allocated; "
        "880.50 MiB free; 29.11 GiB reserved in total by PyTorch)",
        {"requested": gib(1.25), "total": gib(31.75), "free": mib(880.5), "allocated": gib(27.4), "reserved": gib(29.11)},
    ),
    "1.13 allowed": (
        "CUDA out of memory. Tried to allocate 44.00 MiB (GPU 0; 23.65 GiB total capacity; 9.31 GiB already allocated; "
        "13.02 GiB free; 9.46 GiB allowed; 9.40 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory",
        {"free": gib(13.02), "allocated": gib(9.31), "reserved": gib(9.4), "limit": gib(9.46)},
    ),
    "2.1 capacty": (
        "CUDA out of memory. Tried to allocate 3.36 GiB. GPU 0 has a total capacty of 39.39 GiB of which 2.91 GiB is free. "
        "Including non-PyTorch memory, this process has 36.46 GiB memory in use. Of the allocated memory 33.07 GiB is "
        "allocated by PyTorch, and 2.77 GiB is reserved by PyTorch but unallocated. " + ADVICE,
        {"total": gib(39.39), "free": gib(2.91), "own": gib(36.46), "allocated": gib(33.07), "unallocated": gib(2.77)},
    ),
    "2.2 allowed": (
        "CUDA out of memory. Tried to allocate 66.00 MiB. GPU 2 has a total capacity of 47.40 GiB of which 30.12 GiB is "
        "free. 9.48 GiB allowed; Of the allocated memory 9.20 GiB is allocated by PyTorch, and 140.25 MiB is reserved by "
        "PyTorch but unallocated. " + ADVICE,
        {"limit": gib(9.48), "allocated": gib(9.2), "unallocated": mib(140.25)},
    ),
    "private pools": (
        "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 7 has a total capacity of 79.11 GiB of which 301.31 MiB is "
        "free. Including non-PyTorch memory, this process has 78.80 GiB memory in use. Of the allocated memory 74.92 GiB is "
        "allocated by PyTorch, with 1.05 GiB allocated in private pools (e.g., CUDA Graphs), and 613.77 MiB is reserved by "
        "PyTorch but unallocated. " + ADVICE,
        {"allocated": gib(74.92), "private": gib(1.05), "unallocated": mib(613.77), "own": gib(78.8)},
    ),
    "HIP, 0 bytes": (
        "HIP out of memory. Tried to allocate 640.00 MiB. GPU 0 has a total capacity of 23.98 GiB of which 0 bytes is free. "
        "Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
        {"requested": mib(640), "free": 0, "allocated": 0, "unallocated": 0},
    ),
    "XPU": (
        "XPU out of memory. Tried to allocate 36.00 MiB. GPU 0 has a total capacity of 15.91 GiB of which 9.62 MiB is free. "
        "Of the allocated memory 14.20 GiB is allocated by PyTorch, and 120.50 MiB is reserved by PyTorch but unallocated.",
        {"requested": mib(36), "total": gib(15.91), "free": mib(9.62)},
    ),
    "NPU": (
        "NPU out of memory. Tried to allocate 330.00 MiB (NPU 4; 60.97 GiB total capacity; 58.11 GiB already allocated; "
        "58.11 GiB current active; 210.40 MiB free; 58.90 GiB reserved in total by PyTorch)",
        {"requested": mib(330), "total": gib(60.97), "allocated": gib(58.11), "free": mib(210.4), "reserved": gib(58.9)},
    ),
    "NPU workspace": (
        "NPU out of memory. NPUWorkspaceAllocator tried to allocate 2.50 GiB(NPU 6; 60.96 GiB total capacity; 1.12 GiB free).",
        {"requested": gib(2.5), "total": gib(60.96), "free": gib(1.12)},
    ),
    "MPS": (
        "MPS backend out of memory (MPS allocated: 17.02 GiB, other allocations: 1.10 GiB, max allowed: 18.13 GiB). Tried to "
        "allocate 256.00 MiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit",
        {"requested": mib(256), "allocated": gib(17.02), "total": gib(18.13)},
    ),
    "cudaMallocAsync": (
        "Allocation on device 1 would exceed allowed memory. (out of memory)\nCurrently allocated     : 13.25 GiB\n"
        "Requested               : 4.50 GiB\nDevice limit            : 23.64 GiB\nFree (according to CUDA): 18.06 MiB\n"
        "PyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB",
        {"requested": gib(4.5), "allocated": gib(13.25), "total": gib(23.64), "free": mib(18.06)},
    ),
}
NAMES = {
    "requested": "requested_bytes", "total": "total_bytes", "free": "free_bytes", "own": "own_process_bytes",
    "allocated": "allocated_bytes", "reserved": "reserved_bytes", "unallocated": "reserved_unallocated_bytes",
    "private": "private_pool_bytes", "limit": "limit_bytes",
}  # fmt: skip


def parsed(message: str) -> TorchMessage:
    assert looks_like(message)
    result = parse(message)
    assert result is not None
    return result


@pytest.mark.parametrize("form", FORMS)
def test_figures_come_out_as_printed(form: str) -> None:
    message, expected = FORMS[form]
    fields = parsed(message).fields
    assert {name: fields.get(NAMES[name]) for name in expected} == expected


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_made_up(form: str) -> None:
    message, expected = FORMS[form]
    printed = {name for name in NAMES.values() if name in parsed(message).fields}
    assert {"reserved_bytes", "limit_bytes", "private_pool_bytes"} & printed <= {NAMES[name] for name in expected}


@pytest.mark.parametrize(
    ("message", "api"),
    [
        ("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call", "cuda"),
        ("CUDA Error: out of memory at /build/csrc/cumem_allocator.cpp:88", "cuda"),
        ("CUDA driver error: out of memory", "cuda"),
        ("HIP error: out of memory", "hip"),
        ("cudaErrorMemoryAllocation: out of memory", "cuda"),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "cublas"),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cudnn"),
        ('NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp":1131', "nvml_assert"),
        ("MPS backend out of memory", "torch"),
    ],
)
def test_forms_without_figures(message: str, api: str) -> None:
    result = parsed(message)
    assert result.api == api
    assert result.fields == {}


@pytest.mark.parametrize(
    "message",
    [
        "",
        "out of memory",
        "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes",
        "NCCL error: unhandled system error, NCCL version 2.27.3",
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        "Triton Error [CUDA]: out of resource: shared memory, Required: 262144",
        "The model tried to allocate 4 experts to each rank",
        "tried to allocate 20 requests to a worker",
    ],
)
def test_look_alikes(message: str) -> None:
    assert parse(message) is None


def named(*clauses: str) -> str:
    return (
        "CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 24.00 GiB of which 64.00 MiB is "
        f"free. {' '.join(clauses)} Of the allocated memory 12.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
        "PyTorch but unallocated."
    )


OWN = "Including non-PyTorch memory, this process has 14.00 GiB memory in use."


def test_neighbours_beside_this_process() -> None:
    result = parsed(named("Process 881 has 5.00 GiB memory in use.", "Process 90210 has 412.00 MiB memory in use.", OWN))
    assert result.processes == [(881, gib(5)), (90210, mib(412))]
    assert result.own_process is None
    assert result.fields["own_process_bytes"] == gib(14)
    assert result.fields["other_processes_bytes"] == gib(5) + mib(412)


def test_own_process_is_the_smallest_that_can_hold_what_is_reserved() -> None:
    clauses = [f"Process {pid} has {size:.2f} GiB memory in use." for pid, size in ((11, 14.0), (12, 20.0), (13, 3.0))]
    result = parsed(named(*clauses))
    assert result.own_process == (11, gib(14))
    assert result.processes == [(12, gib(20)), (13, gib(3))]
    assert result.fields["own_process_bytes"] == gib(14)


def test_no_clause_is_large_enough_to_be_the_own_process() -> None:
    result = parsed(named("Process 21 has 9.00 GiB memory in use."))
    assert result.own_process is None
    assert "own_process_bytes" not in result.fields
    assert result.fields["other_processes_bytes"] == gib(9)


def test_unknown_is_not_a_figure() -> None:
    result = parsed(named("Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use."))
    assert "own_process_bytes" not in result.fields


def test_resolution_is_that_of_the_least_exact_of_requested_and_free() -> None:
    assert parsed(FORMS["2.1 capacty"][0]).fields["resolution_bytes"] == 5368709
    assert parsed(FORMS["private pools"][0]).fields["resolution_bytes"] == 5242


@pytest.mark.parametrize("form", [*FORMS, "neighbours"])
def test_cut_off_anywhere(form: str) -> None:
    """GIVEN a message cut at any character WHEN it is parsed THEN it has no figure that the whole one has not."""
    message = named("Process 881 has 5.25 GiB memory in use.", OWN) if form == "neighbours" else FORMS[form][0]
    whole = parsed(message)
    sums = {"other_processes_bytes", "own_process_bytes", "resolution_bytes"}
    for end in range(len(message)):
        part = parse(message[:end])
        if part is None:
            continue
        for name, value in part.fields.items():
            if name not in sums:
                assert whole.fields.get(name) == value, (name, message[:end])
        known = {*whole.processes, whole.own_process}
        assert {*part.processes, part.own_process} - {None} <= known - {None}


@pytest.mark.parametrize("tail", ["20.0", "20.00", "20.00 ", "20.00 G", "20.00 Gi"])
def test_a_size_without_its_unit_is_no_size(tail: str) -> None:
    result = parse(f"CUDA out of memory. Tried to allocate {tail}")
    assert result is not None
    assert result.fields == {}


@settings(deadline=None)
@given(st.text(alphabet="CUDAofmery. TridlctGPhspB0123456789,;()\n", max_size=300), st.integers(0, 600))
def test_never_raises(noise: str, at: int) -> None:
    message = FORMS["private pools"][0]
    parse(message[:at] + noise + message[at:])
    parse("Tried to allocate " + noise)
