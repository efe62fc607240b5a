"""Kills for memory whose victim is no engine's process: what ties one to an engine is its name, its pid or its company."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from tests.triage.logs import first, triaged
from tests.triage.test_silent import DEAD, REPORT, RUNNING


def cgroup(victim: str, rss_kib: int = 90_000, beside: str | None = None, invoker: str | None = None) -> str:
    """A report of a cgroup that was full; its table lists who else is in it."""
    row = f"[   7002]     0  7002  9000000  2000000 88000000        0           936 {beside}\n" if beside else ""
    return (
        f"[512.1] {invoker or victim} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=968\n"
        f"[512.1] memory: usage {rss_kib + 9000}kB, limit {rss_kib + 9000}kB, failcnt 31\n"
        f"[512.1] Tasks state (memory values in pages):\n"
        f"[512.1] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
        f"[512.1] {row or 'end'}\n"
        f"[512.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-7b.scope,mems_allowed=0,oom_memcg=/kubepods.slice/pod7b,task_memcg=/kubepods.slice/pod7b/cri-containerd-7b.scope,task={victim},pid=7001,uid=0\n"
        f"[512.1] Memory cgroup out of memory: Killed process 7001 ({victim}) total-vm:99999999kB, anon-rss:{rss_kib}kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:51kB oom_score_adj:968\n"
        f"[512.1] oom_reaper: reaped process 7001 ({victim}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n"
    )


def node(victim: str, beside: str = "systemd-journal") -> str:
    """A report of a node that was full."""
    return (
        "[512.1] kworker invoked oom-killer: gfp_mask=0x140dca, order=0, oom_score_adj=0\n"
        "[512.1] Tasks state (memory values in pages):\n"
        f"[512.1] [   7002]     0  7002  9000000  2000000 88000000        0           936 {beside}\n"
        f"[512.1] Out of memory: Killed process 7001 ({victim}) total-vm:9000000kB, anon-rss:4000000kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:9kB oom_score_adj:300\n"
    )


@pytest.mark.parametrize("victim", ["fluent-bit", "node_exporter", "envoy"])
def test_a_sidecar_killed_at_its_own_limit_is_not_the_engines(victim: str) -> None:
    (found,) = triaged(cgroup(victim))
    assert (found.verdict, found.resource, found.survived) == ("not_oom", None, None)
    assert victim in found.summary and "its own cgroup was full (97 MiB)" in found.summary
    assert found.cascade is None, "the kernel says three times of the one kill"
    assert "host was short" not in found.remedies[0].action


@pytest.mark.parametrize(
    "engine",
    ["VLLM::EngineCor", "VLLM::Worker_TP", "sglang::schedul", "ray::RolloutWor", "text-generation", "tritonserver",
     "trtllm-serve", "llama-server", "ollama", "pt_main_thread", "python3.12", "lmdeploy", "triton_python_b"],
)  # fmt: skip
def test_an_engines_process_is_known_by_its_name(engine: str) -> None:
    (found,) = triaged(cgroup(engine))
    assert (found.verdict, found.resource) == ("oom", "host")
    assert found.confidence > 0.8


@pytest.mark.parametrize("report", [cgroup("sh", beside="VLLM::EngineCor"), cgroup("sh", invoker="pt_main_thread")])
def test_who_shares_the_engines_cgroup_ran_out_of_the_engines_memory(report: str) -> None:
    (found,) = triaged(report)
    assert (found.verdict, found.resource) == ("oom", "host")
    assert found.confidence > 0.8


def test_a_victim_of_an_unknown_name_that_is_large_enough_may_be_an_engine() -> None:
    (found,) = triaged(cgroup("inferd", rss_kib=24_000_000))
    assert (found.verdict, found.resource) == ("oom", "host")
    assert found.confidence < 0.6
    assert any("inferd is an engine's process is not told" in item.says for item in found.evidence)


def test_a_victim_of_a_full_node_may_be_anybody() -> None:
    (found,) = triaged(node("inferd"))
    assert (found.verdict, found.resource) == ("oom", "host")
    assert found.confidence < 0.6


def test_a_victim_of_a_full_node_beside_an_engine_that_lives_is_another() -> None:
    (found,) = triaged(node("mysqld", beside="VLLM::EngineCor"))
    assert found.verdict == "not_oom"
    assert "cgroup" not in found.summary
    assert "host was short" in found.remedies[0].action


@pytest.mark.parametrize("files", [1, 2])
def test_a_sidecars_kill_beside_a_failure_of_the_engine_is_context(files: int) -> None:
    parts = (RUNNING + REPORT, cgroup("fluent-bit"), "vllm-1 exited with code 137\n")
    found = triaged("".join(parts)) if files == 1 else triaged(parts[0] + parts[2], parts[1])
    assert [item.verdict for item in found] == [None]
    assert "whom it killed is not here" not in found[0].summary


def test_a_kill_that_is_told_leaves_nobody_asking_whom() -> None:
    found = first(RUNNING + REPORT + cgroup("fluent-bit") + DEAD)
    assert not any("whom it killed is not here" in item.says for item in found.evidence)
