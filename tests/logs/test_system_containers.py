"""What kubectl, runtimes, systemd, batch systems and launchers say of an end; made up for these tests."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from tests.logs.reading import of_kind, one, read

KIB, MIB, GIB = 2**10, 2**20, 2**30

DESCRIBE = """\
Name:             otter-7c9f4
Containers:
  vllm:
    Image:          vllm/vllm-openai:v0.17.1
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Sat, 14 Mar 2026 15:09:20 +0000
      Finished:     Sat, 14 Mar 2026 15:12:11 +0000
    Ready:          False
    Restart Count:  4
    Limits:
      cpu:             8
      memory:          64Gi
      nvidia.com/gpu:  1
    Requests:
      memory:          32Gi
"""


def test_describe_pod() -> None:
    rows = read(DESCRIBE)
    assert [(fields["api"], fields["error_type"]) for fields in of_kind(rows, "oom")] == [("supervisor", "oom_kill")]
    ends = of_kind(rows, "lifecycle")
    assert [fields["phase"] for fields in ends] == ["stopped", "stopped"], "the status of an OOMKilled says nothing more"
    assert of_kind(rows, "host") == [{"cgroup_limit_bytes": 64 * GIB}], "the limit, not the request"


@pytest.mark.parametrize(
    ("printed", "expected"), [("64Gi", 64 * GIB), ("1500Mi", 1500 * MIB), ("2G", 2 * 10**9), ("1.5Ti", 3 * 2**39), ("68719476736", 64 * GIB)]
)  # fmt: skip
def test_quantities(printed: str, expected: int) -> None:
    assert one(f"    Limits:\n      memory:  {printed}\n", "host") == {"cgroup_limit_bytes": expected}
    assert one(f'"limits": {{\n  "cpu": "8",\n  "memory": "{printed}"\n}}\n', "host") == {"cgroup_limit_bytes": expected}


OOM_WORDS = {
    "get pods": "otter-7c9f4   0/1     OOMKilled   3 (41s ago)   9m",
    "describe": "      Reason:       OOMKilled",
    "jsonpath": '{"terminated":{"exitCode":137,"reason":"OOMKilled"}}',
    "docker inspect": '            "OOMKilled": true,',
    "docker inspect, go template": "OOMKilled=true ExitCode=137",
    "containerd": 'level=info msg="TaskOOM event container_id:\\"5e\\""',
    "evicted": "Warning  Evicted  3m  kubelet  The node was low on resource: memory. Threshold quantity: 100Mi, available: 51Mi. Container vllm was using 60Gi, request is 0, has larger consumption of memory.",
    "evicted status": "Message: The node was low on resource: memory.",
    "ecs": '"reason": "OutOfMemoryError: Container killed due to memory usage"',
    "nomad": "Terminated  Exit Code: 137, Exit Message: \"OOM Killed\"",
    "systemd result": "otter.service: Failed with result 'oom-kill'.",
    "systemd unit": "otter.service: A process of this unit has been killed by the OOM killer.",
    "systemd show": "Result=oom-kill",
    "oomd": "Killed /system.slice/otter.service due to memory used (66000000000) / total (67000000000) and swap used (0) / total (0) being more than 90.00%",
    "oomd pressure": "systemd-oomd[812]: Killed /user.slice/u.scope due to memory pressure for /user.slice being 85.21% > 60.00% for > 20s with reclaim activity",
    "oomd unit": "otter.service: systemd-oomd killed 14 process(es) in this unit.",
    "earlyoom": 'earlyoom[811]: sending SIGTERM to process 4121 uid 1000 "python3": oom_score 912, VmRSS 51200 MiB, cmdline "python3 -m vllm"',
    "earlyoom, old": 'sending SIGKILL to process 4121 uid 1000 "python3": badness 912, VmRSS 51200 MiB',
    "slurm": "slurmstepd: error: Detected 1 oom_kill event in StepId=88412.0. Some of the step tasks have been OOM Killed.",
    "slurm, old": "slurmstepd: error: Detected 2 oom-kill event(s) in step 88412.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
    "srun": "srun: error: gpu-07: task 0: Out Of Memory",
    "sacct": "88412.batch      batch      acct         64 OUT_OF_ME+    0:125",
    "slurm state": "State: OUT_OF_MEMORY (exit code 0)",
    "lsf": "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
    "pbs": "=>> PBS: job killed: mem 67108900kb exceeded limit 67108864kb",
}  # fmt: skip


@pytest.mark.parametrize("line", OOM_WORDS)
def test_the_word_of_one_who_knows(line: str) -> None:
    fields = one(OOM_WORDS[line] + "\n", "oom")
    assert (fields["resource"], fields["error_type"], fields["fatal"]) == ("host", "oom_kill", True)


def test_figures_of_an_eviction_and_of_earlyoom() -> None:
    assert one(OOM_WORDS["evicted"] + "\n", "oom")["own_process_bytes"] == 60 * GIB
    fields = one(OOM_WORDS["earlyoom"] + "\n", "oom")
    assert (fields["victim"], fields["victim_pid"], fields["own_process_bytes"]) == ("python3", 4121, 51200 * MIB)


NO_OOM = {
    "docker inspect": '            "OOMKilled": false,',
    "template": "OOMKilled=false ExitCode=1",
    "advice": "(APIServer pid=71) INFO 03-14 15:09:26 [a.py:90] pods may be OOMKilled",
    "disk": "The node was low on resource: ephemeral-storage.",
    "other result": "otter.service: Failed with result 'exit-code'.",
    "slurm done": "88412.batch      batch      acct         64  COMPLETED      0:0",
    "earlyoom report": "earlyoom[811]: mem avail: 41022 of 64000 MiB (64.10%), swap free:    0 of    0 MiB ( 0.00%)",
}


@pytest.mark.parametrize("line", NO_OOM)
def test_words_that_only_look_like_it(line: str) -> None:
    assert of_kind(read(NO_OOM[line] + "\n"), "oom") == []


SIGKILLED = {
    "elastic": "E0314 15:12:11.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 4121) of binary: /usr/bin/python3",
    "elastic table": "  exitcode  : -9 (pid: 4121)",
    "sglang": "[2026-03-14 15:12:07] Child process unexpectedly failed with exitcode=-9. pid=4121",
    "supervisord": "2026-03-14 15:12:11,000 WARN exited: otter (terminated by SIGKILL; not expected)",
    "mpirun": "mpirun noticed that process rank 1 with PID 4121 on node gpu-07 exited on signal 9 (Killed).",
    "srun": "srun: error: gpu-07: task 0: Killed by signal 9",
    "supervisor": "worker exited with signal 9",
    "subprocess": "subprocess.CalledProcessError: Command '['vllm', 'serve']' died with <Signals.SIGKILL: 9>.",
    "kubectl": "command terminated with exit code 137",
    "describe": "      Exit Code:    137",
    "docker ps": "Exited (137) 3 minutes ago",
    "compose": "vllm-1 exited with code 137",
}  # fmt: skip


@pytest.mark.parametrize("line", SIGKILLED)
def test_killed_and_nobody_says_by_whom(line: str) -> None:
    found = [fields for fields in of_kind(read(SIGKILLED[line] + "\n"), "lifecycle") if fields["phase"] == "killed"]
    assert [fields["signal"] for fields in found] == [9]
    assert of_kind(read(SIGKILLED[line] + "\n"), "oom") == []


@pytest.mark.parametrize(
    "line",
    [
        "Unable to shutdown process 4121 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
        "Sending process 4121 closing signal SIGTERM",
        "sending SIGKILL to remaining children",
        "exit code 1",
        "exit code 0",
        "docker: Error response from daemon: exit status 125",
        "grace exit: 9 requests left",
    ],
)
def test_no_kill(line: str) -> None:
    assert [fields for fields in of_kind(read(line + "\n"), "lifecycle") if fields["phase"] == "killed"] == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Segmentation fault (core dumped)", "segfault"),
        ("bash: line 1:  4121 Segmentation fault      (core dumped) vllm serve x", "segfault"),
        ("Fatal Python error: Segmentation fault", "segfault"),
        ("!!!!!!! Segfault encountered !!!!!!!", "segfault"),
        ("[gpu-07:4121:0:4400] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)", "segfault"),
        ("python3[4121]: segfault at 10 ip 00007f sp 00007f error 4 in libtorch.so", "segfault"),
        ("vllm-1 exited with code 139", "segfault"),
        ("Engine core proc EngineCore_DP0 died unexpectedly (exit code: -11), shutting down client.", "segfault"),
        ("Fatal Python error: Bus error", "bus_error"),
        ("Bus error (core dumped)", "bus_error"),
        ("  exitcode  : -7 (pid: 4121)", "bus_error"),
        ("Aborted (core dumped)", "abort"),
        ("vllm-1 exited with code 134", "abort"),
        ("[rank1]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error", "peer_lost"),
        ("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.5]:41022", "peer_lost"),
    ],
)  # fmt: skip
def test_crashes_and_lost_peers(line: str, code: str) -> None:
    assert [fields["code"] for fields in of_kind(read(line + "\n"), "fault")] == [code]


@pytest.mark.parametrize(
    "line",
    [
        "[W314 15:12:11.000000000 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=9): failed to recv, got 0 bytes",
        "requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))",
        "Handled segment 14 of the bus",
    ],
)
def test_connections_of_clients_are_no_lost_peers(line: str) -> None:
    assert [f for f in of_kind(read(line + "\n"), "fault") if f["code"] != "exception"] == []


@pytest.mark.parametrize(
    "line",
    [
        "Received SIGTERM",
        "(APIServer pid=71) INFO 03-14 15:09:26 [launcher.py:90] Received signal 15, shutting down",
        "KeyboardInterrupt: terminated",
        "  Normal   Killing    21s   kubelet  Stopping container vllm",
        "Stopping otter.service - Otter inference...",
    ],
)
def test_the_order_to_end(line: str) -> None:
    assert [fields["phase"] for fields in of_kind(read(line + "\n"), "lifecycle")] == ["draining"]


def test_exit_143_is_a_stop() -> None:
    assert one("vllm-1 exited with code 143\n", "lifecycle")["phase"] == "stopped"


def test_rays_memory_monitor() -> None:
    log = """\
ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
Memory on the node (IP: 10.0.0.5, ID: 77) where the task (task ID: 8, name=generate, pid=4121, memory used=21.50GB) was running was 60.25GB / 63.50GB (0.9488), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 9) because it was the most recently scheduled task; Top 10 memory users:
PID	MEM(GB)	COMMAND
4400	31.25	ray::ActorWorker.update
4121	21.50	ray::RolloutWorker.generate
"""
    traceback = 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in get\n    x()\n' + log
    rows = read(traceback + "\n\nnext\n")
    assert of_kind(rows, "oom")[0]["api"] == "ray"
    assert {"total_bytes": round(63.5 * GIB), "free_bytes": round(3.25 * GIB)} in of_kind(rows, "host")
    assert [(fields["pid"], fields["rss_bytes"]) for fields in of_kind(rows, "process")] == [
        (4400, round(31.25 * GIB)),
        (4121, round(21.5 * GIB)),
    ]


def test_ray_guesses_are_guesses() -> None:
    line = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called."
    fields = one(line + "\n", "lifecycle")
    assert (fields["phase"], fields.get("signal")) == ("killed", None)
