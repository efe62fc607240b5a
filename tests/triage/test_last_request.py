"""Engines that die once nobody is left to send back: of swap space, of blocks, of the last request."""

import pytest

from oomctl.schemas.verdict import Incident
from tests.triage import tables
from tests.triage.logs import triaged

V0 = """\
INFO 05-02 08:00:00 api_server.py:528] vLLM API server version 0.6.2
INFO 05-02 08:00:00 api_server.py:529] args: Namespace(model='m', max_num_seqs=24, gpu_memory_utilization=0.9)
INFO 05-02 08:01:00 distributed_gpu_executor.py:57] # GPU blocks: 9000, # CPU blocks: 1024
INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)
WARNING 05-02 08:30:00 scheduler.py:1439] Sequence group cmpl-9 is preempted by PreemptionMode.SWAP mode because there is \
not enough KV cache space. This can affect the end-to-end performance. total_num_cumulative_preemption=7
INFO 05-02 08:30:01 metrics.py:349] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 410.0 tokens/s, \
Running: 20 reqs, Swapped: 4 reqs, Pending: 6 reqs, GPU KV cache usage: 99.1%, CPU KV cache usage: 96.0%.
"""
SGLANG = """\
[2026-05-02 08:00:00] server_args=ServerArgs(model_path='m', tp_size=1, max_running_requests={most})
[2026-05-02 08:01:00] KV Cache is allocated. #tokens: 90000, KV size: 8.00 GB
[2026-05-02 08:02:00] The server is fired up and ready to roll!
[2026-05-02 08:30:00] Decode batch, #running-req: {running}, #token: 89990, token usage: 1.00, cuda graph: True, gen \
throughput (token/s): 40.2, #queue-req: 0
"""
SCHEDULER = """\
[2026-05-02 08:30:01] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl/python/sglang/srt/managers/scheduler.py", line 1800, in update_running_batch
    retracted_reqs, new_token_ratio = batch.retract_decode(self.server_args)
  File "/sgl/python/sglang/srt/managers/schedule_batch.py", line 1500, in retract_decode
    raise error
{error}
"""
GONE = "[2026-05-02 08:30:02] Received sigquit from a child process. It usually means the child failed.\n"


def only(text: str) -> Incident:
    (found,) = triaged(text)
    return found


def changes(found: Incident) -> list[str | None]:
    return [remedy.setting for remedy in found.remedies if remedy.when == "change"]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "RuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space to avoid this error.",
            "swap_space_exhausted",
        ),
        ("ValueError: Out of memory! No free blocks are available.", "preemption_storm"),
        ("vllm.core.block.interfaces.BlockAllocator.NoFreeBlocksError", "preemption_storm"),
    ],
)
def test_the_v0_engine_died_after_it_had_preempted(line: str, cause: str) -> None:
    found = only(f"{V0}ERROR 05-02 08:30:05 async_llm_engine.py:65] {line}\n")
    assert (found.oom_class, found.resource, found.survived) == ("decode_growth", "kv_blocks", False)
    assert tables.causes(found)[0] == cause
    assert found.evidence[0].cites[0].line == 7, "the line that it died of is the failure"
    assert "the worker went on" not in found.summary
    assert ("--swap-space 16" in changes(found)) is (cause == "swap_space_exhausted")
    assert found.cascade is None or 5 not in found.cascade.lines, "what came before did not follow"


def test_v1_finds_no_block_in_the_pool() -> None:
    text = (
        "(APIServer pid=1) INFO 05-02 08:00:00 [api_server.py:1] vLLM API server version 0.14.0\n"
        "(APIServer pid=1) INFO:     Application startup complete.\n"
        "(EngineCore pid=7) ERROR 05-02 08:30:00 [core.py:842] EngineCore encountered a fatal error.\n"
        "(EngineCore pid=7) ERROR 05-02 08:30:00 [core.py:842] Traceback (most recent call last):\n"
        '(EngineCore pid=7) ERROR 05-02 08:30:00 [core.py:842]   File "/v/core/block_pool.py", line 3, in get_new_blocks\n'
        "(EngineCore pid=7) ERROR 05-02 08:30:00 [core.py:842] ValueError: Cannot get 3 free blocks from the pool\n"
    )
    found = only(text)
    assert (found.verdict, found.resource, found.survived) == ("oom", "kv_blocks", False)


@pytest.mark.parametrize(
    "error",
    [
        "AssertionError: No space left for only one request",
        "AssertionError: No space left for only one request in SWA mode full_available_size=0, swa_available_size=12",
        "ValueError: Failed to retract any request. No space left for only one request.",
    ],
)
@pytest.mark.parametrize("blank", ["", "\n"], ids=["stripped", "blank"])
def test_sglang_died_of_its_last_request(error: str, blank: str) -> None:
    text = SGLANG.format(most=16, running=1) + SCHEDULER.format(error=error) + blank
    for log in (text + GONE, text):
        found = only(log)
        assert (found.oom_class, found.resource, found.survived) == ("decode_growth", "kv_blocks", False)
        assert (found.evidence[0].cites[0].text or "").endswith(error)
        assert "computed again" not in found.remedies[0].action
        assert any("died of it" in item.says for item in found.evidence)


@pytest.mark.parametrize(("most", "running", "offered"), [(1, 1, False), (16, 9, True)])
def test_admission_is_no_remedy_for_a_request_that_was_alone(most: int, running: int, offered: bool) -> None:
    error = (
        "RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 9 tokens.\nAvailable tokens: 1"
    )
    found = only(SGLANG.format(most=most, running=running) + SCHEDULER.format(error=error) + GONE)
    admission = [setting for setting in changes(found) if setting and setting.startswith(("--sched", "--max-running"))]
    assert bool(admission) is offered
    assert ("alone" in found.remedies[0].action) is not offered


def test_newer_sglang_gives_the_last_request_up_and_goes_on() -> None:
    text = (
        SGLANG.format(most=16, running=1) + "[2026-05-02 08:30:01] retract_decode: aborted last request ab12 due to OOM\n"
    )
    found = only(text)
    assert (found.oom_class, found.survived) == ("decode_growth", True)


@pytest.mark.parametrize("stop", [". ", ", "])
def test_older_sglang_calls_a_retraction_out_of_memory(stop: str) -> None:
    line = f"[2026-05-02 08:30:01] Decode out of memory happened{stop}#retracted_reqs: 3, #new_token_ratio: 0.41 -> 0.62\n"
    found = only(SGLANG.format(most=16, running=9) + line)
    assert (found.oom_class, found.survived, tables.causes(found)) == ("decode_growth", True, ["preemption_storm"])


@pytest.mark.parametrize("line", ["RuntimeError('Engine loop is not running')", "Engine background task failed"])
def test_the_v0_server_says_that_its_engine_is_dead(line: str) -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    text = f"{V0}ERROR 05-02 08:40:00 worker.py:1] {oom}\nERROR 05-02 08:40:09 engine.py:158] {line}\n"
    assert triaged(text)[0].survived is False
