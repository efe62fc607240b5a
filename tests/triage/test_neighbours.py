"""Who else held the device, as tables of the driver's tools and the ranks' own messages tell; logs that differ in one thing."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from tests.logs.test_system_devices import SMI_535
from tests.triage import tables
from tests.triage.logs import first, triaged

GIB = 2**30
LOADING = """\
(APIServer pid=71) INFO 03-14 15:09:26 [api_server.py:1346] vLLM API server version 0.17.1
(EngineCore_DP0 pid=98) INFO 03-14 15:09:31 [core.py:90] Initializing a V1 LLM engine (v0.17.1) with config: model='acme/otter-9b'
(EngineCore_DP0 pid=98) INFO 03-14 15:09:33 [gpu_model_runner.py:3400] Starting to load model acme/otter-9b...
"""
TRACEBACK = """\
(EngineCore_DP0 pid=98) ERROR 03-14 15:09:41 [core.py:90] Traceback (most recent call last):
(EngineCore_DP0 pid=98) ERROR 03-14 15:09:41 [core.py:90]   File "/srv/vllm/model_executor/model_loader/default_loader.py", line 3, in load_weights
(EngineCore_DP0 pid=98) ERROR 03-14 15:09:41 [core.py:90]     x()
(EngineCore_DP0 pid=98) ERROR 03-14 15:09:41 [core.py:90] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 44.99 GiB of which 211.31 MiB is free.{more}
"""
OWN = " Including non-PyTorch memory, this process has {gib} GiB memory in use."


def table(name: str, mib: int, pid: int = 4121) -> str:
    """nvidia-smi's table with one process on device 0."""
    row = f"|    0   N/A  N/A {pid:>9}      C   {name:<32}{mib:>8}MiB |"
    lines = [row if "4121" in line else line for line in SMI_535.splitlines()]
    return "".join(f"{line}\n" for line in lines).replace("40012MiB", f"{mib + 14}MiB")


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("nvidia-cuda-mps-server", "MPS"), ("lmcache_server", "cache daemon"), ("mooncake_master", "cache daemon"),
        ("/usr/bin/python3 train.py", "trainer"), ("VLLM::EngineCore", "engine"), ("/usr/lib/xorg/Xorg", None),
    ],
)  # fmt: skip
def test_detects_a_neighbour_that_was_there_before(name: str, role: str | None) -> None:
    found = first(table(name, 30_000) + LOADING + TRACEBACK.format(more=OWN.format(gib=14.9)))
    assert (found.causes[0].cause, name in found.causes[0].detail) == ("foreign_process", True)
    assert role is None or role in found.causes[0].detail


@pytest.mark.parametrize("name", ["lmcache_server", "nvidia-cuda-mps-server", "/usr/bin/python3 train.py"])
def test_detects_a_neighbour_by_its_name_after_the_failure(name: str) -> None:
    found = first(LOADING + TRACEBACK.format(more="") + table(name, 30_000))
    assert found.causes[0].cause == "foreign_process" or "foreign_process" in tables.causes(found)
    cause = next(cause for cause in found.causes if cause.cause == "foreign_process")
    assert cause.bytes == 30_000 * 2**20


@pytest.mark.parametrize("name", ["VLLM::EngineCore", "/usr/bin/python3"])
def test_ignores_the_engine_itself_under_the_hosts_pid(name: str) -> None:
    own = 45_000 * 2**20 / GIB
    log = LOADING + TRACEBACK.format(more=OWN.format(gib=f"{own:.2f}")) + table(name, 45_000)
    assert "foreign_process" not in tables.causes(first(log))
    assert "foreign_process" not in tables.causes(first(LOADING + TRACEBACK.format(more="") + table(name, 45_000)))


def test_ignores_the_engine_by_its_pid() -> None:
    assert "foreign_process" not in tables.causes(
        first(LOADING + TRACEBACK.format(more="") + table("lmcache", 30_000, pid=98))
    )


ENDED = (
    LOADING
    + "(APIServer pid=71) INFO:     Application startup complete.\nEngine core proc EngineCore_DP0 died unexpectedly (exit code: -9), shutting down client.\n"
)


@pytest.mark.parametrize(
    ("name", "cause"), [("VLLM::EngineCore", "earlier_incarnation"), ("lmcache_server", "foreign_process")]
)
@pytest.mark.parametrize("place", ["before the start", "after the first line"])
def test_detects_an_orphan_of_the_last_life_by_its_name(name: str, cause: str, place: str) -> None:
    start, rest = LOADING.splitlines(keepends=True)[0], "".join(LOADING.splitlines(keepends=True)[1:])
    smi = table(name, 30_000)
    second = smi + start + rest if place == "before the start" else start + smi + rest
    found = triaged(ENDED + second + TRACEBACK.format(more=OWN.format(gib=14.9)).replace("pid=98", "pid=99"))
    assert [item.incarnation for item in found] == ["1", "2"]
    assert found[1].causes[0].cause == cause
    assert (found[1].oom_class == "recovery") == (cause == "earlier_incarnation")


def rank(number: int, own: float, pid: int, other: float, device: int) -> str:
    """A rank's failure; it sees another process on its device."""
    text = TRACEBACK.format(more=f" Process {pid} has {other} GiB memory in use." + OWN.format(gib=own))
    return text.replace("(EngineCore_DP0 pid=98)", f"(Worker_TP{number} pid={200 + number})").replace(
        "GPU 0", f"GPU {device}"
    )


@pytest.mark.parametrize(
    ("pids", "devices", "misplaced"),
    [((201, 200), (0, 0), True), ((7001, 7000), (0, 0), True), ((7001, 7000), (0, 1), False)],
)
def test_ranks_on_one_device(pids: tuple[int, int], devices: tuple[int, int], misplaced: bool) -> None:
    log = LOADING + rank(0, 20.5, pids[0], 24.2, devices[0]) + rank(1, 24.2, pids[1], 20.5, devices[1])
    found = first(log)
    assert (found.causes[0].cause == "ranks_on_one_device") == misplaced
    assert ("foreign_process" in tables.causes(found)) != misplaced


def test_stages_share_a_device_on_purpose() -> None:
    log = LOADING + rank(0, 20.5, 201, 24.2, 0) + rank(1, 24.2, 200, 20.5, 0)
    log = log.replace("Worker_TP0", "StageEngineCoreProc_stage0_replica0").replace(
        "Worker_TP1", "StageEngineCoreProc_stage1_replica0"
    )
    found = tables.causes(first(log))
    assert "stages_on_one_device" in found and "ranks_on_one_device" not in found and "foreign_process" not in found
