"""Kills, the kernel's word and host allocations that failed, beside lines that only look like them."""

# ruff: noqa: E501  a line of a log is one line

from typing import Any

import pytest

from tests.logs.reading import of_kind, one, read

KIB, MIB, GIB = 2**10, 2**20, 2**30

KILLS = {
    "bare": "Killed",
    "with its command": "Killed                  vllm serve acme/otter-9b",
    "bash": "bash: line 1:   123 Killed                  vllm serve acme/otter-9b",
    "script": "/opt/start.sh: line 14:  4121 Killed                  python3 -m sglang.launch_server",
    "exit code 137": "command terminated with exit code 137",
    "exited with code 137": "vllm-1 exited with code 137",
    "exited (137)": "Container otter exited (137)",
    "exit status": "Process exited with status 137",
    "exitCode": '{"containerID": "9f", "exitCode": 137}',
    "Exit Code:": "      Exit Code:    137",
    "returned": "CalledProcessError: command returned 137",
    "zsh": "zsh: killed     vllm serve acme/otter-9b",
    "zsh, job": "[1]    4121 killed     vllm serve acme/otter-9b",
    "bash, job": "[1]+  Killed                  vllm serve acme/otter-9b",
    "systemd": "otter.service: Main process exited, code=killed, status=9/KILL",
    "go": "signal: killed",
    "torchrun": "Signal 9 (SIGKILL) received by PID 4121",
}


@pytest.mark.parametrize("line", KILLS)
def test_kill(line: str) -> None:
    fields = one(KILLS[line] + "\n", "lifecycle")
    assert (fields["phase"], fields["signal"]) == ("killed", 9)


@pytest.mark.parametrize("prefix", ["vllm-1  | ", "Nov 30 12:00:01 gpu-07 vllm[2211]: "])
def test_bare_kill_behind_a_prefix(prefix: str) -> None:
    log = f"{prefix}INFO 03-14 15:09:26 [core.py:90] x\n{prefix}Killed\n"
    assert one(log, "lifecycle")["phase"] == "killed"


HARMLESS = {
    "count of kills": "Killed 3 idle connections",
    "killed in a sentence": "The job was Killed by its owner yesterday",
    "137 requests": "137 requests finished",
    "137 alone in a table": "rows: 137",
    "exit code 1": "command terminated with exit code 1",
    "exit code 1370": "exit code 1370",
    "status 200": 'INFO:     127.0.0.1:40118 - "GET /health HTTP/1.1" 200 OK',
    "137 ms": 'INFO:     127.0.0.1:137 - "GET /health HTTP/1.1" 200 OK',
    "engine INFO on SIGKILL": "INFO 03-14 15:09:26 [utils.py:90] Workers that do not stop in time get SIGKILL (signal 9)",
    "engine INFO on OOMKilled": "INFO 03-14 15:09:26 [utils.py:90] See the docs on OOMKilled pods",
    "engine INFO on the killer": "(APIServer pid=71) INFO 03-14 15:09:26 [a.py:90] Out of memory: Killed process is what the kernel prints",
    "memory in a sentence": "Running without much memory",
    "a restart policy": "restart policy: unless-stopped",
    "free": "Mem:          503Gi       210Gi        12Gi",
    "errno 13": "OSError: [Errno 13] Permission denied: '/models'",
    "mmap off": "llama_model_loader: mmap = true",
    "nvidia-smi header": "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
    "nvidia-smi totals": "0, 14 MiB, 24564 MiB",
    "nccl": "NCCL INFO Connected all rings, 9 channels",
}


@pytest.mark.parametrize("line", HARMLESS)
def test_look_alikes_give_nothing(line: str) -> None:
    rows = read(HARMLESS[line] + "\n")
    assert of_kind(rows, "oom", "lifecycle", "process", "host", "refusal") == []
    assert [fields for fields in of_kind(rows, "fault") if fields["code"] != "exception"] == []


def test_kernel_oom_killer() -> None:
    log = """\
[88123.120311] python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
[88123.120344] CPU: 3 PID: 4121 Comm: python3 Tainted: P           OE     6.8.0-40-generic
[88123.121870] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task=python3,pid=4121,uid=0
[88123.121893] Out of memory: Killed process 4121 (python3) total-vm:98231044kB, anon-rss:51200000kB, file-rss:2048kB, shmem-rss:1024kB, UID:0 pgtables:130560kB oom_score_adj:0
"""
    chosen, fields = of_kind(read(log), "oom")
    for told in (chosen, fields):
        assert (told["resource"], told["api"], told["error_type"], told["fatal"]) == ("host", "kernel", "oom_kill", True)
        assert (told["victim"], told["victim_pid"]) == ("python3", 4121)
    assert fields["own_process_bytes"] == (51_200_000 + 2048 + 1024) * KIB
    assert one(log, "host") == {"rss_bytes": (51_200_000 + 2048 + 1024) * KIB, "shared_bytes": 1024 * KIB}
    assert [row["line"] for row in read(log) if row["kind"] == "oom"] == [3, 4]


@pytest.mark.parametrize(
    ("line", "api", "rss"),
    [
        ("Memory cgroup out of memory: Killed process 77 (VLLM::EngineCor) total-vm:9kB, anon-rss:700kB, file-rss:0kB, shmem-rss:0kB", "kernel_cgroup", 700 * KIB),
        ("Nov 30 12:00:01 gpu-07 kernel: Memory cgroup out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:5kB", "kernel_cgroup", 5 * KIB),
        ("Out of memory: Kill process 77 (python3) score 912 or sacrifice child", "kernel", None),
        ("[Tue Mar 14 15:12:11 2026] Out of memory (oom_kill_allocating_task): Killed process 77 (python3)", "kernel", None),
    ],
)  # fmt: skip
def test_kernel_oom_killer_spellings(line: str, api: str, rss: int | None) -> None:
    fields = one(line + "\n", "oom")
    assert (fields["resource"], fields["api"], fields.get("own_process_bytes")) == ("host", api, rss)


@pytest.mark.parametrize(
    "line",
    ["      Reason:       OOMKilled", '        "reason": "OOMKilled",', "vllm-7c9f4   0/1     OOMKilled   3 (41s ago)   9m", "systemd[1]: otter.service: Failed with result 'oom-kill'."],
)  # fmt: skip
def test_supervisors_word(line: str) -> None:
    fields = one(line + "\n", "oom")
    assert (fields["resource"], fields["error_type"], fields["fatal"]) == ("host", "oom_kill", True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Worker proc VllmWorker-1 died unexpectedly, shutting down executor.", {"phase": "killed"}),
        ("Worker proc VllmWorker-1 died unexpectedly (exit code: None), shutting down executor.", {"phase": "killed"}),
        ("Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.", {"phase": "killed", "signal": 9, "exit_code": -9}),
        ("Engine core proc EngineCore_DP0 died unexpectedly (exit code: 0), shutting down client.", {"phase": "stopped", "exit_code": 0}),
    ],
)  # fmt: skip
def test_vllm_notices_a_dead_process(text: str, expected: dict[str, Any]) -> None:
    fields = one(f"(APIServer pid=71) ERROR 03-14 15:12:11 [core_client.py:601] {text}\n", "lifecycle")
    assert {key: value for key, value in fields.items() if key != "detail"} == expected
    assert fields["detail"] == text


@pytest.mark.parametrize(
    ("exception", "api", "requested"),
    [
        ("MemoryError", "python", None),
        ("MemoryError: ", "python", None),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.25 GiB for an array with shape (9,) and data type float64", "numpy", None),
        ("OSError: [Errno 12] Cannot allocate memory", "errno", None),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 123456789 bytes. Error code 12 (Cannot allocate memory)", "cpu_allocator", 123456789),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:83] data. DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes.", "cpu_allocator", 4096),
        ("RuntimeError: unable to mmap 8589934592 bytes from file </dev/shm/x>: Cannot allocate memory (12)", "mmap", 8589934592),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "malloc", None),
        ("  what():  std::bad_alloc", "malloc", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("traceback", [False, True])
def test_host_allocation_that_failed(exception: str, api: str, requested: int | None, traceback: bool) -> None:
    if traceback and exception.lstrip().startswith(("what", "terminate")):
        pytest.skip("no exception line of Python's")
    head = 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in load\n    x()\n' if traceback else ""
    fields = one(f"{head}{exception}\n", "oom")
    assert (fields["resource"], fields["api"], fields.get("requested_bytes")) == ("host", api, requested)
    assert ("stack_id" in fields) == traceback


def test_nvidia_smi_table() -> None:
    log = """\
| Processes:                                                                              |
|    0   N/A  N/A      4121      C   /usr/bin/python3                              71234MiB |
|    1   N/A  N/A       912    C+G   /usr/bin/gnome-shell                             96MiB |
"""
    assert of_kind(read(log), "process") == [
        {"pid": 4121, "name": "/usr/bin/python3", "used_bytes": 71234 * MIB, "resolution_bytes": MIB // 2},
        {"pid": 912, "name": "/usr/bin/gnome-shell", "used_bytes": 96 * MIB, "resolution_bytes": MIB // 2},
    ]


def test_nvidia_smi_query() -> None:
    log = "pid, used_gpu_memory [MiB], process_name\n4121, 61234 MiB, /usr/bin/python3\n912, 1.5 GiB, [Not Found]\n"
    assert of_kind(read(log), "process") == [
        {"pid": 4121, "name": "/usr/bin/python3", "used_bytes": 61234 * MIB, "resolution_bytes": MIB // 2},
        {"pid": 912, "name": "[Not Found]", "used_bytes": 3 * GIB // 2, "resolution_bytes": GIB // 20},
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Back-off restarting failed container vllm in pod x",
        "otter.service: Scheduled restart job, restart counter is at 4.",
    ],
)
def test_restart(line: str) -> None:
    fields = one(line + "\n", "lifecycle")
    assert fields["phase"] == "stopped"
    assert fields["detail"].startswith("restart: ")
