"""Several sources that tell of one failure are one incident; those that do not are not."""

# ruff: noqa: E501  a line of a log is one line

import io
import re
from datetime import datetime, timedelta

import pytest

from oomctl.analyzers.triage import triage
from oomctl.collectors.artifacts.logs import read_log
from oomctl.schemas import storage
from oomctl.schemas.verdict import Incident
from tests.scenarios import render_log

STAMP = re.compile(r"%(-?\d+)%")
NOON = datetime(2026, 11, 30, 12, 0, 0)

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.11 GiB of which "
    "1.01 GiB is free. Including non-PyTorch memory, this process has 78.09 GiB memory in use. Of the allocated memory 74.20 "
    "GiB is allocated by PyTorch, and 2.31 GiB is reserved by PyTorch but unallocated."
)
NCCL = (
    "torch.distributed.DistBackendError: [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600010 milliseconds"
)


def rank_log(rank: int, at: int, failure: str) -> str:
    """A rank's own log, of which the last line fails at so many seconds after noon."""
    head = f"[{{time}} TP{rank}] "
    lines = [
        head.replace("{time}", f"%{at - 60}%") + "Load weight begin. avail mem=78.20 GB",
        head.replace("{time}", f"%{at - 30}%")
        + "Load weight end. elapsed=8.02 s, type=O, avail mem=9.40 GB, mem usage=68.80 GB.",
        head.replace("{time}", f"%{at}%") + "Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/opt/sglang/srt/managers/scheduler.py", line 2711, in run_scheduler_process',
        "    scheduler.event_loop_overlap()",
        '  File "/opt/sglang/srt/model_executor/model_runner.py", line 1902, in forward_extend',
        "    return self.model.forward(",
        failure,
    ]
    return STAMP.sub(lambda found: f"{NOON + timedelta(seconds=int(found[1])):%Y-%m-%d %H:%M:%S}", "\n".join(lines) + "\n")


def told(**sources: str) -> list[Incident]:
    with storage.connect() as connection:
        for name, text in sources.items():
            storage.load_rows(connection, read_log(io.BytesIO(text.encode()), f"{name}.log").rows)
        return triage(connection)


def root_stream(incident: Incident) -> str:
    return incident.evidence[0].cites[0].stream


def others(incident: Incident) -> set[str]:
    """Sources that are cited as telling of it too."""
    return {cite.stream for item in incident.evidence if item.supports == "cascade" for cite in item.cites}


@pytest.mark.parametrize("late", [2, 600, 1500])
def test_a_rank_that_waits_for_a_dead_one_is_its_echo(late: int) -> None:
    found = told(a=rank_log(0, late, NCCL.format(rank=0)), b=rank_log(1, 0, OOM))
    assert [(item.verdict, root_stream(item), item.rank) for item in found] == [("oom", "b.log", 1)]
    assert others(found[0]) == {"a.log"}


@pytest.mark.parametrize("skew", [-60, -5, 0, 5, 60])
def test_skewed_clocks_do_not_turn_the_story(skew: int) -> None:
    sources = {f"r{rank}": rank_log(rank, skew, NCCL.format(rank=rank)) for rank in (0, 1, 3)}
    found = told(**sources, r2=rank_log(2, 0, OOM))
    assert [(item.verdict, root_stream(item)) for item in found] == [("oom", "r2.log")]
    assert len(others(found[0])) == 3


def test_of_ranks_that_failed_alike_the_first_is_the_root() -> None:
    found = told(a=rank_log(0, 4, OOM), b=rank_log(1, 1, OOM), c=rank_log(2, 3, OOM))
    assert [root_stream(item) for item in found] == ["b.log"]
    assert found[0].cascade is not None and found[0].cascade.failures == 2


def test_alone_each_tells_the_same_as_before() -> None:
    """GIVEN a rank's log alone WHEN others join THEN class, resource and causes are the same."""
    (alone,) = told(b=rank_log(1, 0, OOM))
    (joined,) = told(a=rank_log(0, 600, NCCL.format(rank=0)), b=rank_log(1, 0, OOM))
    assert (alone.oom_class, alone.resource, alone.causes, alone.requested_bytes) == (
        joined.oom_class,
        joined.resource,
        joined.causes,
        joined.requested_bytes,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(rank_log(0, 0, OOM), rank_log(1, 7200, OOM), id="two hours apart"),
        pytest.param(rank_log(0, 0, OOM), rank_log(0, 1, OOM), id="the same rank of two jobs"),
        pytest.param(rank_log(0, 0, OOM), rank_log(1, -600, NCCL.format(rank=1)), id="an echo before the call"),
        pytest.param(
            render_log("warm_up_capture", seed=5, ranks=2, engine="vllm"),
            render_log("warm_up_capture", seed=5, ranks=2, engine="vllm"),
            id="two replicas",
        ),
        pytest.param(
            render_log("warm_up_capture", seed=5, ranks=1, engine="vllm"),
            render_log("warm_up_capture", seed=5, ranks=1, engine="sglang"),
            id="two engines",
        ),
    ],
)
def test_unrelated_failures_stay_apart(one: str, other: str) -> None:
    assert len(told(a=one, b=other)) == 2


def test_ranks_without_any_time_are_joined_by_their_numbers() -> None:
    trace = '[rank{n}]: Traceback (most recent call last):\n[rank{n}]:   File "/srv/a.py", line 1, in step\n[rank{n}]:     x()\n'
    one = trace.replace("{n}", "0") + "[rank0]: " + NCCL.format(rank=0) + "\n"
    other = trace.replace("{n}", "1") + f"[rank1]: {OOM}\n"
    found = told(a=one, b=other)
    assert [(item.verdict, root_stream(item)) for item in found] == [("oom", "b.log")]


KERNEL = "[88025.335029] Out of memory: Killed process {pid} (VLLM::Worker_TP) total-vm:8556380kB, anon-rss:2852126kB, file-rss:1180kB"


def test_the_kernels_word_explains_a_death() -> None:
    engine = render_log("host_kill_silent", seed=5, ranks=2, engine="vllm")
    (alone,) = told(a=engine)
    assert alone.verdict is None
    pid = re.findall(r"pid=(\d+)", engine)[-1]
    found = told(a=engine, b=KERNEL.format(pid=pid) + "\n")
    assert [(item.verdict, item.resource, root_stream(item)) for item in found] == [("oom", "host", "b.log")]
    assert (found[0].engine, found[0].worker, found[0].phase) == ("vllm", "a.log", alone.phase)
    assert others(found[0]) == {"a.log"}


def test_the_kernels_word_explains_what_ranks_tell_of() -> None:
    engine = render_log("host_kill_silent", seed=0, ranks=2, engine="vllm")
    pid = re.findall(r"pid=(\d+)", engine)[-1]
    stamp = re.findall(r"\d\d-\d\d \d\d:\d\d:\d\d", engine)[-1]
    trace = f"(Worker_TP7 pid=41) ERROR {stamp} [a.py:1] "
    rank = f"{trace}Traceback (most recent call last):\n{trace}{NCCL.format(rank=7)}\n"
    found = told(a=engine, b=KERNEL.format(pid=pid) + "\n", c=rank)
    assert [(item.verdict, item.resource, root_stream(item)) for item in found] == [("oom", "host", "b.log")]
    assert others(found[0]) == {"a.log", "c.log"}
