# ruff: noqa: E501  (lines as the engine prints them)
"""ollama's server outlives its runners: it answers with an error, and starts another for the next request."""

import pytest

from oomctl.schemas.verdict import Incident
from tests.logs.reading import reading
from tests.triage.logs import triaged

UP = 'time=2025-10-02T08:00:01.233+02:00 level=INFO source=routes.go:1331 msg="Listening on 127.0.0.1:11434 (version 0.12.9)"\n'
GATE = 'time=2025-10-02T08:01:00.001+02:00 level=INFO source=sched.go:453 msg="NewLlamaServer failed" model=/m/sha256-77 error="model requires more system memory (20.0 GiB) than is available (12.5 GiB)"\n'
BUFFER = """\
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1024.00 MiB on device 0: cudaMalloc failed: out of memory
ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 1073741824
time=2025-10-02T08:01:04.001+02:00 level=INFO source=sched.go:470 msg="Load failed" model=/m/sha256-77 error="llama runner process has terminated: cudaMalloc failed: out of memory"
"""
ANSWER = '[GIN] 2025/10/02 - 08:01:05 | {status} |  4.23s |       127.0.0.1 | POST     "/api/chat"\n'


def told(log: str) -> Incident:
    (found,) = triaged(UP + log)
    return found


@pytest.mark.parametrize("failure", [GATE, BUFFER], ids=["gate", "runner"])
@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_answers_goes_on(failure: str, status: int) -> None:
    assert told(failure + ANSWER.format(status=status)).survived is True


@pytest.mark.parametrize("failure", [GATE, BUFFER], ids=["gate", "runner"])
def test_without_an_answer_it_is_not_said(failure: str) -> None:
    assert told(failure).survived is not True


def test_a_buffer_of_the_largest_batch_is_no_kernel() -> None:
    found = told(BUFFER + ANSWER.format(status=500))
    assert (found.oom_class, found.causes[0].cause, found.requested_bytes) == ("warm_up", "compute_buffers", 1 << 30)
    assert found.remedies[0].action.startswith("Load it again")


def test_a_model_that_the_host_cannot_hold() -> None:
    found = told(GATE + ANSWER.format(status=500))
    assert (found.verdict, found.resource, found.short_bytes) == ("capacity_gate", "host", round(7.5 * 2**30))
    settings = [remedy.setting for remedy in found.remedies]
    assert settings[0] == "swapon FILE" and "num_ctx lower" in settings and "num_gpu lower" not in settings


def test_it_is_ollama_that_wrote_it() -> None:
    assert reading(UP + BUFFER)[0].engines == ("ollama",)
