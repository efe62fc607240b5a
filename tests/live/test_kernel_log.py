"""The kernel's log beside a worker: its report on a kill of the worker's, in place of what the counts let conclude."""

import os
from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.live.host import kernel_log as module
from oomctl.collectors.live.host.kernel_log import KernelLog
from oomctl.collectors.live.host.sampler import Fact, Host, Process
from tests.live.fakes import GIB, FakeHost
from tests.logs.test_system_kernel import GLOBAL_6_8, MEMCG_V2

STRANGER = 77


def victim_of(text: str) -> int:
    return int(text.rpartition("Killed process ")[2].split()[0])


def watched(tmp_path: Path, pid: int, kills: int = 0) -> tuple[FakeHost, Host]:
    fake = FakeHost(tmp_path)
    fake.namespace()
    fake.logs(MEMCG_V2)  # of an earlier worker, which is nobody's news
    fake.cgroup("/")
    fake.cgroup("/box", current=GIB, limit=2 * GIB)
    for each in (pid, STRANGER):
        fake.process(each, "/box")
    host = Host(fake.root)
    host.follow([Process(pid, {"incarnation": "life", "rank": 3}), Process(STRANGER, {"incarnation": "old"})])
    host.sample(0)
    return fake, host


def of(kind: str, facts: list[Fact]) -> list[dict[str, Any]]:
    return [{**fields, "of": common.get("incarnation")} for name, fields, common in facts if name == kind]


def test_a_log_that_is_followed_and_tells_of_no_kill(tmp_path: Path) -> None:
    fake, host = watched(tmp_path, 5)
    fake.dies(5)
    host.sample(1)
    said = of("collector", host.gone([5], 1)[1])
    assert [row["name"] for row in said if row["state"] == "ok"] == ["kill_count", "kernel_log"]


def test_a_report_on_a_process_of_the_worker(tmp_path: Path) -> None:
    pid = victim_of(MEMCG_V2)
    fake, host = watched(tmp_path, pid)
    fake.logs(MEMCG_V2)
    fake.cgroup("/box", kills=1)
    fake.dies(pid)
    facts = host.sample(1)
    (word,) = of("oom", facts)
    assert (word["api"], word["error_type"], word["victim_pid"], word["of"]) == ("kernel_cgroup", "oom_kill", pid, "life")
    assert word["own_process_bytes"] > 0 and "Killed process" in word["message"]
    assert any(row.get("cgroup_limit_bytes") for row in of("host", facts)), "what stood around it is kept"
    tasks = of("process", facts)
    assert {row["own"] for row in tasks if row["pid"] == pid} == {True}
    assert all(row["of"] is None for row in tasks if not row["own"])
    # The count of the cgroup says the same once more, and is silent.
    assert host.missing() == [pid]
    assert of("oom", host.gone([pid], 1)[1]) == []
    assert of("oom", host.sample(2)) == []


def test_a_report_that_comes_late_adds_what_stood_around(tmp_path: Path) -> None:
    pid = victim_of(MEMCG_V2)
    fake, host = watched(tmp_path, pid)
    fake.cgroup("/box", kills=1)
    fake.dies(pid)
    host.sample(1)
    assert [word["api"] for word in of("oom", host.gone(host.missing(), 1)[1])] == ["cgroup"]
    fake.logs(MEMCG_V2)
    late = host.sample(2)
    assert of("oom", late) == [] and of("host", late)


def test_a_report_on_another_process_is_not_the_workers(tmp_path: Path) -> None:
    fake, host = watched(tmp_path, 5)
    fake.logs(GLOBAL_6_8 + MEMCG_V2)
    assert of("oom", host.sample(1)) == []


def test_a_report_in_two_parts(tmp_path: Path) -> None:
    pid = victim_of(GLOBAL_6_8)
    fake, host = watched(tmp_path, pid)
    lines = GLOBAL_6_8.splitlines()
    fake.logs("\n".join(lines[: len(lines) // 2]))
    assert of("oom", host.sample(1)) == []
    fake.logs("\n".join(lines[len(lines) // 2 :]))
    assert len(of("oom", host.sample(2))) == 1


def test_without_a_log_that_is_said_once(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    fake.namespace()
    host = Host(fake.root)
    (said,) = of("collector", host.sample(0))
    assert (said["name"], said["state"]) == ("kernel_log", "absent") and "No such file" in said["detail"]
    assert of("collector", host.sample(1)) == []
    assert KernelLog(fake.root).absent is not None


def test_a_log_that_counts_processes_of_another_namespace_is_left_alone(tmp_path: Path) -> None:
    pid = victim_of(MEMCG_V2)
    fake = FakeHost(tmp_path)
    fake.namespace("pid:[4026532000]")
    fake.logs("")
    fake.process(pid)
    host = Host(fake.root)
    host.follow([Process(pid, {})])
    host.sample(0)
    fake.logs(MEMCG_V2)
    assert of("oom", host.sample(1)) == []


def test_the_journal_is_asked_once_a_process_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = victim_of(MEMCG_V2)
    (tmp_path / "report").write_text(MEMCG_V2)
    (tmp_path / "journalctl").write_text(f'#!/bin/sh\ntest "$1" = --dmesg && cat {tmp_path}/report\n')
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(module, "journal_readable", lambda root: True)
    log = KernelLog(tmp_path / "no kmsg here")
    assert (log.name, log.absent) == ("the journal", None)
    assert log.reports(False, {pid}) == []
    found = log.reports(True, {pid})
    assert isinstance(log._source, module.Journal) and log._source._asked is not None
    assert log._source._asked.wait(30)
    found += log.reports(False, {pid})
    assert [report.victim_pid for report in found] == [pid]
    log.close()
