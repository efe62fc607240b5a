"""The kernel's out-of-memory reports, in the spellings of many versions and behind many prefixes; made up for these tests."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from tests.logs.reading import of_kind, read
from tests.logs.samples import VLLM

KIB, MIB, GIB = 2**10, 2**20, 2**30

GLOBAL_6_8 = """\
VLLM::EngineCor invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0, oom_score_adj=0
CPU: 12 PID: 52011 Comm: VLLM::EngineCor Tainted: P           OE      6.8.0-45-generic #45-Ubuntu
Call Trace:
 <TASK>
 dump_stack_lvl+0x76/0xa0
 oom_kill_process+0x108/0x1c0
Mem-Info:
active_anon:12 inactive_anon:15 isolated_anon:0
 free:51200 free_pcp:0 free_cma:0
Node 0 DMA: 1*4kB (U) 1*8kB (U) 0*16kB 0*32kB = 12kB
16384000 pages RAM
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[   1203]     0  1203     9000     1024      900      124         0    77824        0          -250 systemd-journal
[  52011]  1000 52011 90000000 12288000 12287000     1000         0 98304000        0             0 VLLM::EngineCor
[  53100]     0 53100  6000000  2621440  2621000      440         0 20000000        0           900 node exporter
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=docker-77.scope,mems_allowed=0,global_oom,task_memcg=/system.slice/docker-77.scope,task=VLLM::EngineCor,pid=52011,uid=1000
Out of memory: Killed process 52011 (VLLM::EngineCor) total-vm:360000000kB, anon-rss:49148000kB, file-rss:4000kB, shmem-rss:0kB, UID:1000 pgtables:96000kB oom_score_adj:0
oom_reaper: reaped process 52011 (VLLM::EngineCor), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
"""

MEMCG_V2 = """\
pt_main_thread invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=936
memory: usage 67108864kB, limit 67108864kB, failcnt 1204
swap: usage 0kB, limit 0kB, failcnt 0
Memory cgroup stats for /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1f.slice:
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[   4400]     0  4400      255        1    28672        0          -998 pause
[   4471]     0  4471 70000000 16252928 88000000        0           936 pt_main_thread
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-5e.scope,mems_allowed=0,oom_memcg=/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1f.slice,task_memcg=/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1f.slice/cri-containerd-5e.scope,task=pt_main_thread,pid=4471,uid=0
Memory cgroup out of memory: Killed process 4471 (pt_main_thread) total-vm:280000000kB, anon-rss:64000000kB, file-rss:900kB, shmem-rss:1011712kB, UID:0 pgtables:86000kB oom_score_adj:936
"""

MEMCG_V1_OLD = """\
python3 invoked oom-killer: gfp_mask=0x24000c0, order=0, oom_score_adj=0
Task in /docker/9a0f killed as a result of limit of /docker/9a0f
memory: usage 33554432kB, limit 33554432kB, failcnt 77
memory+swap: usage 33554432kB, limit 9007199254740988kB, failcnt 0
[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name
[ 8811]     0  8811 20000000  8126464   16000      60        0             0 python3
Memory cgroup out of memory: Kill process 8811 (python3) score 971 or sacrifice child
Killed process 8811 (python3) total-vm:80000000kB, anon-rss:32500000kB, file-rss:5856kB
"""

REPORTS = {"global": (GLOBAL_6_8, 52011), "memcg v2": (MEMCG_V2, 4471), "memcg v1": (MEMCG_V1_OLD, 8811)}
PREFIXES = {
    "none": "", "dmesg": "[88123.120311] ", "dmesg -T": "[Tue Mar 14 15:12:11 2026] ",
    "journalctl -k": "Mar 14 15:12:11 gpu-07 kernel: ", "syslog": "Mar 14 15:12:11 gpu-07 kernel: [88123.120311] ",
    "rsyslog": "2026-03-14T15:12:11.120311+00:00 gpu-07 kernel: ", "priority": "<4>[88123.120311] ",
}  # fmt: skip


def behind(prefix: str, report: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in report.splitlines())


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("place", ["alone", "pasted", "merged"])
def test_a_report_wherever_it_stands(prefix: str, report: str, place: str) -> None:
    text, pid = REPORTS[report]
    text = behind(PREFIXES[prefix], text)
    rows = read({"alone": text, "pasted": VLLM + text, "merged": merged(VLLM, text)}[place])
    kills = [fields for fields in of_kind(rows, "oom") if fields.get("error_type") == "oom_kill"]
    assert kills and {fields["victim_pid"] for fields in kills} == {pid}
    assert {fields["api"] for fields in kills} <= {"kernel" if report == "global" else "kernel_cgroup", "kernel"}
    held = [fields for fields in of_kind(rows, "process") if "rss_bytes" in fields and fields["pid"] == pid]
    assert len(held) == 2, "in the table, and where it was killed"


def merged(one: str, other: str) -> str:
    """Two logs line by line, one of the other's between two of the first."""
    left, right = one.splitlines()[:7], other.splitlines()
    return "".join(f"{a}\n{b}\n" for a, b in zip([*left, *[""] * len(right)], right, strict=False))


def test_the_table_of_tasks_in_pages() -> None:
    table = [fields for fields in of_kind(read(GLOBAL_6_8), "process") if fields["rss_bytes"] % (4 * KIB) == 0]
    assert {"pid": 52011, "name": "VLLM::EngineCor", "rss_bytes": 12_288_000 * 4 * KIB} in table
    assert {"pid": 53100, "name": "node exporter", "rss_bytes": 2_621_440 * 4 * KIB} in table
    assert 1203 not in {fields["pid"] for fields in table}, "a node has hundreds of small tasks"


def test_pages_of_64_kib() -> None:
    log = GLOBAL_6_8.replace("1*4kB (U) 1*8kB (U) 0*16kB 0*32kB = 12kB", "3*64kB (U) 1*128kB (U) = 320kB")
    assert {"pid": 53100, "name": "node exporter", "rss_bytes": 2_621_440 * 64 * KIB} in of_kind(read(log), "process")
    assert {"total_bytes": 16_384_000 * 64 * KIB} in of_kind(read(log), "host")


def test_memory_of_the_node_and_of_the_cgroup() -> None:
    assert {"total_bytes": 16_384_000 * 4 * KIB} in of_kind(read(GLOBAL_6_8), "host")
    assert {"free_bytes": 51_200 * 4 * KIB} in of_kind(read(GLOBAL_6_8), "host")
    limit = {"cgroup_current_bytes": 64 * GIB, "cgroup_limit_bytes": 64 * GIB}
    assert limit in of_kind(read(MEMCG_V2), "host")
    assert {"rss_bytes": (64_000_000 + 900 + 1_011_712) * KIB, "shared_bytes": 1_011_712 * KIB} in of_kind(
        read(MEMCG_V2), "host"
    )


def test_no_limit_is_not_a_limit() -> None:
    log = "memory: usage 33554432kB, limit 9007199254740988kB, failcnt 0\n"
    assert of_kind(read(log), "host") == [{"cgroup_current_bytes": 32 * GIB}]


@pytest.mark.parametrize(
    "line",
    [
        "oom_reaper: reaped process 77 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:4kB",
        "System OOM encountered, victim process: python3, pid: 77",
        "Warning  SystemOOM  4m  kubelet  System OOM encountered, victim process: python3, pid: 77",
        "Out of memory: Kill process 77 (python3) score 900 or sacrifice child",
        "Killed process 77 (python3), UID 1000, total-vm:9kB, anon-rss:5kB, file-rss:0kB",
    ],
)
def test_a_line_torn_out_of_a_report(line: str) -> None:
    (fields,) = of_kind(read(line + "\n"), "oom")
    assert (fields["victim"], fields["victim_pid"], fields["resource"]) == ("python3", 77, "host")


def test_a_report_cut_after_its_first_line() -> None:
    assert of_kind(read(GLOBAL_6_8.splitlines()[0] + "\n"), "fault") == [
        {"code": "oom_killer", "detail": GLOBAL_6_8.splitlines()[0]}
    ]


def test_the_cgroups_own_count() -> None:
    assert of_kind(read("low 0\nhigh 0\nmax 812\noom 3\noom_kill 2\n"), "oom", "host")[0] == {"cgroup_oom_kills": 2}
    assert of_kind(read("low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"), "oom") == []


@pytest.mark.parametrize(("number", "code"), [(31, "xid"), (79, "xid"), (43, "xid_cleanup"), (45, "xid_cleanup")])
def test_xid(number: int, code: str) -> None:
    log = f"[88123.1] NVRM: Xid (PCI:0000:3b:00): {number}, pid=4121, name=python3, Ch 00000008\n"
    assert [fields["code"] for fields in of_kind(read(log), "fault")] == [code]
