"""A log that just stops, and a kill that is told beside it: the kill is of the life that the log shows, where it stopped."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from tests.logs.test_system_kernel import MEMCG_V2
from tests.triage.logs import first, triaged
from tests.triage.test_silent import REPORT, RUNNING

LOADING = """\
INFO 03-14 11:00:31 [api_server.py:1839] vLLM API server version 0.17.1
INFO 03-14 11:01:02 [gpu_model_runner.py:3120] Starting to load model acme/otter-9b...
Loading safetensors checkpoint shards:  12% Completed | 3/24 [00:10<01:24,  4.01s/it]
"""
POD = """\
Name:             otter-0
Containers:
  otter:
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Restart Count:  5
    Limits:
      memory:          48Gi
--- kubectl logs -p otter-0 ---
"""


@pytest.mark.parametrize("word", [POD, MEMCG_V2], ids=["pod", "kernel"])
@pytest.mark.parametrize("place", ["above", "own file", "own file first"])
def test_a_kill_while_loading(word: str, place: str) -> None:
    logs = {"above": (word + LOADING,), "own file": (LOADING, word), "own file first": (word, LOADING)}[place]
    (found,) = triaged(*logs)
    assert (found.verdict, found.resource, found.oom_class) == ("oom", "host", "load_time")
    assert found.engine == "vllm"
    assert not any("what the worker was doing" in item.what for item in found.missing)


@pytest.mark.parametrize("word", [POD, MEMCG_V2], ids=["pod", "kernel"])
def test_a_kill_while_serving(word: str) -> None:
    assert first(word + RUNNING + REPORT).phase in ("serving", "ready")


def test_a_kill_in_the_middle_of_a_log_may_have_been_anothers() -> None:
    kill = MEMCG_V2.splitlines()[-1] + "\n"
    assert first(RUNNING + kill + REPORT).confidence < 0.6


def test_of_two_logs_that_just_stop_neither_is_chosen() -> None:
    other = LOADING.replace("otter", "lynx")
    assert first(MEMCG_V2, LOADING, other).oom_class is None
