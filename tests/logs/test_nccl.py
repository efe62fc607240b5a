"""Failed collectives: only the reason that the library states says whether memory ran out."""

# ruff: noqa: E501  a message is one line

import pytest

from oomctl.collectors.artifacts.logs import nccl
from tests.logs.reading import of_kind, read
from tests.triage.logs import first, triaged

WARN = "node2:70:812 [3] {place} NCCL WARN {text}\n"
DIST = "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, {result} (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nnccl{kind}: {explained}\nLast error:\n{last}"
SYSTEM = {
    "result": "unhandled system error",
    "kind": "SystemError",
    "explained": "System call (e.g. socket, malloc) or external library call failed or device error. ",
}
CUDA = {"result": "unhandled cuda error", "kind": "UnhandledCudaError", "explained": "Call to CUDA function failed."}


@pytest.mark.parametrize(
    ("message", "resource", "asked"),
    [
        (WARN.format(place="init.cc:402", text="Cuda failure 'out of memory'"), "device", None),
        (WARN.format(place="enqueue.cc:77", text="Cuda failure 2 'out of memory'"), "device", None),
        (WARN.format(place="enqueue.cc:77", text="HIP failure 'out of memory'"), "device", None),
        (WARN.format(place="include/alloc.h:185", text="Failed to CUDA calloc 6291456 bytes"), "device", 6291456),
        (WARN.format(place="include/alloc.h:185", text="Failed to CUDA calloc async 608 bytes"), "device", 608),
        (WARN.format(place="shm.h:28", text="Call to posix_fallocate failed : No space left on device"), "host", None),
        (WARN.format(place="misc/shmutils.cc:87", text="Error while creating shared memory segment /dev/shm/nccl-32ab (size 9637888)"), "host", 9637888),
        (WARN.format(place="misc/shmutils.cc:72", text="Error: failed to extend /dev/shm/nccl-03v824 to 4194660 bytes"), "host", 4194660),
        (WARN.format(place="include/alloc.h:41", text="Failed to CUDA host alloc 1024 bytes"), "host", 1024),
        ("NCCL error in: ProcessGroupNCCL.cpp:3356, Cuda failure 2 'out of memory'", "device", None),
        (DIST.format(**CUDA, last="Failed to CUDA calloc async 608 bytes"), "device", 608),
        (DIST.format(**CUDA, last="Cuda failure 'out of memory'"), "device", None),
        (DIST.format(**SYSTEM, last="Error while creating shared memory segment /dev/shm/nccl-a (size 4096)"), "host", 4096),
    ],
)  # fmt: skip
def test_a_stated_lack_of_memory(message: str, resource: str, asked: int | None) -> None:
    found = nccl.reason("", message)
    assert found is not None and (found.resource, found.requested_bytes) == (resource, asked)
    assert [row["resource"] for row in of_kind(read(message), "oom")][:1] == [resource] or "WARN" not in message


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (WARN.format(place="misc/socket.cc:445", text="Call to bind failed: Address already in use"), "Call to bind failed: Address already in use"),
        (WARN.format(place="socket.cc:5", text="Call to connect failed, retrying; the host may be out of memory"), "Call to connect failed, retrying; the host may be out of memory"),
        (WARN.format(place="init.cc:9", text="Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000"), "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000"),
        (WARN.format(place="misc/shmutils.cc:87", text="Error while creating shared memory segment /dev/shm/nccl-32ab (size 96), error: Permission denied (13)"), "Error while creating shared memory segment /dev/shm/nccl-32ab (size 96), error: Permission denied (13)"),
        (DIST.format(**SYSTEM, last="Call to bind failed : Cannot assign requested address"), "Call to bind failed : Cannot assign requested address"),
        ("NCCL error: invalid usage (run with NCCL_DEBUG=WARN). A rank that is out of memory may cause this too", ""),
        ("NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", ""),
        ("NCCL Error 1: unhandled cuda error, perhaps out of memory", ""),
    ],
)  # fmt: skip
def test_any_other_reason_is_none_of_memory(message: str, text: str) -> None:
    found = nccl.reason("RuntimeError", message)
    assert found is not None and found.resource is None
    assert found.text == text or (not text and "invalid usage" in found.text)
    assert of_kind(read(f"ERROR 07-02 09:14:09 [core.py:740] {message}"), "oom") == []


def test_no_collective() -> None:
    assert (
        nccl.reason("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 MiB.\nn:1:2 [0] NCCL WARN x")
        is None
    )


LOG = (
    "(EngineCore pid=3) INFO 07-02 09:14:01 [core.py:105] Initializing a V1 LLM engine (v0.14.0) with config: model='/m/x'\n"
    "{warn}"
    "(Worker_TP0 pid=9) ERROR 07-02 09:14:09 [multiproc_executor.py:740] WorkerProc failed to start.\n"
    "(Worker_TP0 pid=9) ERROR 07-02 09:14:09 [multiproc_executor.py:740] Traceback (most recent call last):\n"
    '(Worker_TP0 pid=9) ERROR 07-02 09:14:09 [multiproc_executor.py:740]   File "/opt/vllm/distributed/pynccl_wrapper.py", line 272, in NCCL_CHECK\n'
    '(Worker_TP0 pid=9) ERROR 07-02 09:14:09 [multiproc_executor.py:740]     raise RuntimeError(f"NCCL error: {{error_str}}")\n'
    "(Worker_TP0 pid=9) ERROR 07-02 09:14:09 [multiproc_executor.py:740] RuntimeError: NCCL error: unhandled system error\n"
)


def test_the_warning_above_tells_of_what_the_engine_died() -> None:
    bind = WARN.format(place="socket.cc:445", text="Call to bind failed: Address already in use")
    found = first(LOG.format(warn=bind))
    assert (found.verdict, found.survived) == ("not_oom", False)
    assert found.summary.startswith("Not a memory death: Call to bind failed: Address already in use")
    assert {cite.line for cite in found.evidence[0].cites} == {2, 7}


def test_without_a_reason_it_stays_open() -> None:
    assert first(LOG.format(warn="")).verdict is None


def test_a_warning_alone_is_no_incident() -> None:
    assert triaged(WARN.format(place="net.cc:9", text="NET/Plugin : could not be loaded, using the internal one")) == []


def test_full_shared_memory_is_enlarged() -> None:
    warn = WARN.format(
        place="misc/shmutils.cc:87", text="Error while creating shared memory segment /dev/shm/nccl-a (size 9637888)"
    )
    found = first(LOG.format(warn=warn))
    assert (found.verdict, found.resource, found.requested_bytes) == ("oom", "host", 9637888)
    assert found.summary.startswith("Shared memory (/dev/shm) ran out")
    assert any("--shm-size" in (remedy.setting or "") for remedy in found.remedies)
