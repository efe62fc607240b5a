"""Ends without words, and words that do not concern the engine: pairs of logs that differ in one thing."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from oomctl.schemas.verdict import Incident
from tests.logs.test_system_kernel import GLOBAL_6_8, MEMCG_V1_OLD, MEMCG_V2, PREFIXES, behind
from tests.triage.logs import first, triaged

GIB = 2**30

RUNNING = """\
(APIServer pid=71) INFO 03-14 15:09:26 [api_server.py:1346] vLLM API server version 0.17.1
(EngineCore_DP0 pid=98) INFO 03-14 15:09:31 [core.py:90] Initializing a V1 LLM engine (v0.17.1) with config: model='acme/otter-9b'
(EngineCore_DP0 pid=98) INFO 03-14 15:09:33 [gpu_model_runner.py:3400] Starting to load model acme/otter-9b...
(EngineCore_DP0 pid=98) INFO 03-14 15:09:40 [gpu_model_runner.py:3452] Model loading took 17.25 GiB memory and 5.204 seconds
(EngineCore_DP0 pid=98) INFO 03-14 15:09:52 [gpu_worker.py:341] Available KV cache memory: 19.62 GiB
(APIServer pid=71) INFO:     Application startup complete.
"""
REPORT = "(APIServer pid=71) INFO 03-14 15:12:08 [loggers.py:259] Engine 000: Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: 96.1 tokens/s, Running: 5 reqs, Waiting: 1 reqs, GPU KV cache usage: 41.7%, Prefix cache hit rate: 2.0%\n"
CHROME = "[88123.1] Out of memory: Killed process 881 (chrome) total-vm:9000000kB, anon-rss:4000000kB, file-rss:4kB, shmem-rss:0kB, UID:1000 pgtables:9kB oom_score_adj:300\n"
GONE = "(APIServer pid=71) ERROR 03-14 15:12:11 [core_client.py:601] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n"
DEAD = "(APIServer pid=71) ERROR 03-14 15:12:11 [async_llm.py:708] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"


def undetermined(found: Incident) -> bool:
    """Null, under 0.6, with ranked readings, what is missing, and a command to run now."""
    ranked = [other.confidence for other in found.alternatives]
    return (
        found.verdict is None
        and found.oom_class is None
        and found.confidence < 0.6
        and len(ranked) > 1
        and ranked == sorted(ranked, reverse=True)
        and any(item.command for item in found.missing)
        and found.remedies[0].setting in {item.command for item in found.missing}
    )


SILENT_ENDS = {
    "bare word": ("Killed\n", "host"),
    "exit 137": ("vllm-1 exited with code 137\n", "host"),
    "vanished": (GONE, "host"),
    "vanished, cascade": (GONE + DEAD, "host"),
    "supervisor": ("vllm: worker exited with signal 9\n", "host"),
    "segfault": ("Segmentation fault (core dumped)\n", None),
    "segfault, faulthandler": ("Fatal Python error: Segmentation fault\n", None),
    "exit 139": ("vllm-1 exited with code 139\n", None),
    "bus error": ("Bus error (core dumped)\n", None),
    "abort": ("Aborted (core dumped)\n", None),
    "lost peer": ("[rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n", None),
    "timeout": ("[rank0]:[E314 15:12:11.113 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE) ran for 600013 milliseconds before timing out.\n", None),
    "NVML": ('RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp":1131, please report a bug to PyTorch.\n', "device"),
    "report cut off": (GLOBAL_6_8.splitlines()[0] + "\n", "host"),
    "probe": ("  Warning  Killing  2s  kubelet  Container vllm failed liveness probe, will be restarted\n      Exit Code:    137\n", None),
}  # fmt: skip


@pytest.mark.parametrize("end", SILENT_ENDS)
def test_detects_an_end_without_words(end: str) -> None:
    text, resource = SILENT_ENDS[end]
    found = triaged(RUNNING + REPORT + text)
    assert len(found) == 1
    assert undetermined(found[0]), found[0]
    assert found[0].resource == resource


@pytest.mark.parametrize(
    ("text", "command"),
    [("Killed\n", "dmesg"), ("Killed\n", "kubectl describe pod"), ("Bus error (core dumped)\n", "/dev/shm"), ("Segmentation fault\n", "CUDA_LAUNCH_BLOCKING=1"), (SILENT_ENDS["NVML"][0], "nvidia-smi")],
)  # fmt: skip
def test_says_which_record_would_have_told(text: str, command: str) -> None:
    assert any(command in (item.command or "") for item in first(RUNNING + text).missing)


ORDERLY = {
    "SIGTERM": "(APIServer pid=71) INFO 03-14 15:12:10 [launcher.py:90] Received SIGTERM, shutting down\n",
    "uvicorn": "INFO:     Shutting down\n",
    "kubelet": "  Normal   Killing    21s   kubelet  Stopping container vllm\n",
}


@pytest.mark.parametrize("order", ORDERLY)
@pytest.mark.parametrize(
    "after", [DEAD, GONE + DEAD, "vllm-1 exited with code 143\n", "vllm-1 exited with code 137\n", "Killed\n"]
)
def test_ignores_an_orderly_shutdown(order: str, after: str) -> None:
    assert triaged(RUNNING + REPORT + ORDERLY[order] + after) == []


def test_an_order_after_the_failure_excuses_nothing() -> None:
    found = triaged(RUNNING + REPORT + GONE + ORDERLY["uvicorn"] + "vllm-1 exited with code 137\n")
    assert len(found) == 1 and undetermined(found[0])


@pytest.mark.parametrize("after", ["", REPORT])
def test_ignores_the_kill_of_a_browser(after: str) -> None:
    found = triaged(RUNNING + REPORT + CHROME + after)
    assert [(item.verdict, item.resource) for item in found] == [("not_oom", None)]
    assert "chrome" in found[0].summary


def test_the_kill_of_a_browser_does_not_explain_the_engines_end() -> None:
    found = first(RUNNING + REPORT + CHROME + "Killed\n")
    assert undetermined(found)
    assert any("chrome" in item.says for item in found.evidence)


def test_the_kill_of_a_browser_does_not_hide_the_engines_death() -> None:
    found = triaged(RUNNING + REPORT + CHROME + DEAD)
    assert [(item.verdict, item.survived) for item in found] == [(None, False)]


def test_the_kill_of_a_browser_is_not_the_root_of_a_device_oom() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 44.39 GiB of which 211.31 MiB is free.\n"
    found = triaged(RUNNING + REPORT + CHROME + oom)
    assert [(item.verdict, item.resource) for item in found] == [("oom", "device")]


def test_a_report_without_any_engine_speaks_of_its_victim() -> None:
    found = first(CHROME)
    assert (found.verdict, found.resource) == ("oom", "host")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("report", [GLOBAL_6_8, MEMCG_V2, MEMCG_V1_OLD], ids=["global", "v2", "v1"])
@pytest.mark.parametrize("place", ["below", "above", "own file", "own file first"])
def test_detects_the_kernels_word_wherever_it_stands(prefix: str, report: str, place: str) -> None:
    kernel, engine = behind(PREFIXES[prefix], report), RUNNING + "vllm-1 exited with code 137\n"
    logs = {
        "below": (engine + kernel,),
        "above": (kernel + engine,),
        "own file": (engine, kernel),
        "own file first": (kernel, engine),
    }
    found = triaged(*logs[place])
    assert [(item.verdict, item.resource) for item in found] == [("oom", "host")]
    assert found[0].confidence > 0.8
    assert found[0].phase in ("serving", "ready"), "the phase is the engine's, wherever the kernel's word stands"
    assert found[0].causes[0].cause == "host_limit"


def test_the_limit_or_the_host_is_named() -> None:
    assert "64.00 GiB" in first(RUNNING + MEMCG_V2).causes[0].detail
    assert "its container may use" in first(RUNNING + MEMCG_V2).causes[0].detail
    assert "the host has" in first(RUNNING + GLOBAL_6_8).causes[0].detail


def test_the_victim_is_not_the_culprit() -> None:
    report = GLOBAL_6_8.replace(
        "53100     0 53100  6000000  2621440  2621000", "53100     0 53100 30000000 15728640 15728000"
    )
    report = report.replace("[  53100]     0 53100  6000000  2621440", "[  53100]     0 53100 30000000 15728640")
    found = first(RUNNING + report)
    assert [cause.cause for cause in found.causes] == ["host_neighbour", "host_limit"]
    assert found.causes[0].bytes == 15_728_640 * 4096
    assert "node exporter" in found.causes[0].detail


def test_the_victim_is_the_largest() -> None:
    assert [cause.cause for cause in first(RUNNING + GLOBAL_6_8).causes] == ["host_limit"]


def test_a_worker_that_works_on_may_not_have_been_the_victim() -> None:
    kill = CHROME.replace("chrome", "python3")
    assert first(RUNNING + kill + REPORT).confidence < 0.6
    assert first(RUNNING + REPORT + kill).confidence > 0.8


TELEMETRY = "ts,mem_used_gb,mem_total_gb\n1,30.0,64.0\n2,{full},64.0\n3,20.0,64.0\n"


@pytest.mark.parametrize(("full", "resource"), [("63.6", "host"), ("40.0", None)])
def test_a_full_host_before_a_silent_end(full: str, resource: str | None) -> None:
    found = first(RUNNING + REPORT + TELEMETRY.format(full=full) + SILENT_ENDS["lost peer"][0])
    assert undetermined(found)
    assert found.resource == resource
    assert [cause.cause for cause in found.causes] == (["host_pressure"] if resource else [])


CASCADES = {
    "timeout of a peer": SILENT_ENDS["timeout"][0],
    "engine dead": DEAD,
    "key error": 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in get\n    x()\nKeyError: 7\n',
    "broken pipe": 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in get\n    x()\nBrokenPipeError: [Errno 32] Broken pipe\n',
    "lost peer": SILENT_ENDS["lost peer"][0],
}
OOM = 'Traceback (most recent call last):\n  File "/srv/vllm/v1/worker/gpu_model_runner.py", line 3, in execute_model\n    x()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 44.39 GiB of which 211.31 MiB is free.\n'


@pytest.mark.parametrize("louder", CASCADES)
@pytest.mark.parametrize("order", ["after", "before"])
def test_the_failure_is_the_root_whatever_shouts_louder(louder: str, order: str) -> None:
    noise = CASCADES[louder]
    found = triaged(RUNNING + REPORT + (OOM + noise if order == "after" else noise + OOM))
    assert [(item.verdict, item.resource) for item in found] == [("oom", "device")]


@pytest.mark.parametrize("louder", ["timeout of a peer", "lost peer"])
def test_a_peer_that_waited_is_not_the_root_of_a_kill(louder: str) -> None:
    found = triaged(RUNNING + REPORT + CASCADES[louder] + "vllm-1 exited with code 137\n")
    assert [(item.verdict, item.resource) for item in found] == [(None, "host")]
    assert "killed" in found[0].summary


def test_xid() -> None:
    found = first(RUNNING + REPORT + "[88123.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=4121, GPU has fallen off the bus.\n")
    assert (found.verdict, found.resource) == ("not_oom", None)
    assert triaged(RUNNING + REPORT + "[88123.1] NVRM: Xid (PCI:0000:3b:00): 45, pid=4121, name=python3\n") == []
