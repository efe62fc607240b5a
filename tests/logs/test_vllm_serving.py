"""What vLLM says while it serves and when it gives up: reports, steps, the scheduler's dump, its own exceptions."""

# ruff: noqa: E501  a line of a log is one line

from typing import Any

import pytest

from tests.logs.reading import of_kind, one, read

REPORT = "(APIServer pid=71) INFO 03-14 15:12:08 [loggers.py:259] Engine 000: "
RATES = "Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: 96.1 tokens/s, "


def test_report() -> None:
    rows = read(
        f"{REPORT}{RATES}Running: 5 reqs, Waiting: 1 reqs, GPU KV cache usage: 41.7%, Prefix cache hit rate: 2.0%\n"
    )
    assert of_kind(rows, "throughput") == [
        {"prompt_tokens_per_s": 812.4, "generation_tokens_per_s": 96.1, "running_requests": 5, "waiting_requests": 1}
    ]
    (pool,) = of_kind(rows, "kv_pool")
    assert pool == {"tier": "device", "usage_ratio": pytest.approx(0.417), "usage_resolution_ratio": pytest.approx(0.0005)}
    assert of_kind(rows, "oom") == []


def test_report_of_v0() -> None:
    rows = read(
        "INFO 04-01 23:41:18 [metrics.py:481] Avg prompt throughput: 190.0 tokens/s, Avg generation throughput: 41.3 tokens/s, "
        "Running: 3 reqs, Swapped: 2 reqs, Pending: 4 reqs, GPU KV cache usage: 98.4%, CPU KV cache usage: 0.0%.\n"
    )
    (report,) = of_kind(rows, "throughput")
    assert (report["running_requests"], report["swapped_requests"], report["waiting_requests"]) == (3, 2, 4)
    assert [pool["usage_ratio"] for pool in of_kind(rows, "kv_pool")] == [pytest.approx(0.984)]


def test_preemptions_of_the_report_are_a_shortage_of_blocks() -> None:
    rows = read(f"{REPORT}{RATES}Running: 5 reqs, Waiting: 9 reqs, Preemptions: 3, GPU KV cache usage: 99.8%\n")
    (shortage,) = of_kind(rows, "oom")
    assert (shortage["resource"], shortage["error_type"], shortage["requests"], shortage["fatal"]) == (
        "kv_blocks",
        "preemption",
        3,
        False,
    )
    assert of_kind(rows, "throughput")[0]["preempted_requests"] == 3


def test_no_preemptions() -> None:
    assert (
        of_kind(read(f"{REPORT}{RATES}Running: 5 reqs, Waiting: 9 reqs, Preemptions: 0, GPU KV cache usage: 9.8%\n"), "oom")
        == []
    )


def test_preemption_of_v0() -> None:
    shortage = one(
        "WARNING 04-01 23:41:18 [scheduler.py:1754] Sequence group cmpl-19 is preempted by PreemptionMode.RECOMPUTE mode because "
        "there is not enough KV cache space. This can affect the end-to-end performance. total_num_cumulative_preemption=51\n",
        "oom",
    )
    assert (shortage["resource"], shortage["error_type"], shortage["requests"], shortage["fatal"]) == (
        "kv_blocks",
        "preemption",
        1,
        False,
    )


@pytest.mark.parametrize(
    ("context", "tokens", "generation", "mode"), [(1, 4096, 0, "prefill"), (0, 0, 7, "decode"), (2, 900, 3, "mixed")]
)
def test_iteration(context: int, tokens: int, generation: int, mode: str) -> None:
    step = one(
        f"(EngineCore_DP0 pid=98) INFO 03-14 15:12:08 [core.py:359] Iteration(881): {context} context requests, {tokens} context tokens, "
        f"{generation} generation requests, {generation} generation tokens, iteration elapsed time: 90.12 ms\n",
        "step",
    )
    assert step == {
        "step_id": 881, "mode": mode, "prefill_tokens": tokens, "decode_tokens": generation, "running_requests": context + generation,
    }  # fmt: skip


DUMP = (
    "(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [dump_input.py:79] Dumping scheduler output for model execution: "
    "SchedulerOutput(scheduled_new_reqs=[NewRequestData(req_id=chatcmpl-a1,prompt_token_ids_len=9000,mm_features=[],block_ids=([1],))], "
    "scheduled_cached_reqs=CachedRequestData(req_ids=['chatcmpl-b2','chatcmpl-c3'],num_computed_tokens=[811, 4096],num_output_tokens=[17, 0]), "
    "num_scheduled_tokens={chatcmpl-a1: 2048, chatcmpl-b2: 1, chatcmpl-c3: 512}, total_num_scheduled_tokens=2561, "
    "preempted_req_ids=['chatcmpl-d4'])\n"
    "(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [dump_input.py:81] Dumping scheduler stats: SchedulerStats(num_running_reqs=3, "
    "num_waiting_reqs=8, kv_cache_usage=0.9921, prefix_cache_stats=None)\n"
)


def test_scheduler_dump() -> None:
    rows = read(DUMP)
    (step,) = of_kind(rows, "step")
    assert step == {"mode": "mixed", "prefill_tokens": 2560, "decode_tokens": 1, "running_requests": 3, "dumped": True}
    requests = {fields["request_id"]: fields for fields in of_kind(rows, "request")}
    assert {key: fields["event"] for key, fields in requests.items()} == {
        "chatcmpl-a1": "scheduled", "chatcmpl-b2": "scheduled", "chatcmpl-c3": "scheduled", "chatcmpl-d4": "preempted",
    }  # fmt: skip
    assert (requests["chatcmpl-a1"]["prompt_tokens"], requests["chatcmpl-a1"]["scheduled_tokens"]) == (9000, 2048)
    assert (requests["chatcmpl-b2"]["computed_tokens"], requests["chatcmpl-b2"]["output_tokens"]) == (811, 17)
    assert requests["chatcmpl-c3"]["computed_tokens"] == 4096
    (report,) = of_kind(rows, "throughput")
    assert report == {"running_requests": 3, "waiting_requests": 8}
    assert of_kind(rows, "kv_pool") == [{"tier": "device", "usage_ratio": 0.9921}]
    assert of_kind(rows, "oom", "fault") == []


def test_empty_and_cut_off_dumps() -> None:
    empty = (
        DUMP.split("SchedulerOutput(")[0]
        + "SchedulerOutput(scheduled_new_reqs=[], num_scheduled_tokens={}, total_num_scheduled_tokens=0)\n"
    )
    assert of_kind(read(empty), "request") == []
    first = DUMP.split("\n")[0]
    for end in range(len(first) - 500, len(first), 7):
        read(first[:end] + "\n")


GATES: list[tuple[str, dict[str, Any]]] = [
    (
        "ValueError: Free memory on device (9.61/44.39 GiB) on startup is less than desired GPU memory utilization (0.92, 40.84 GiB). "
        "Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        {"gate": "start_memory", "resource": "device", "needed_bytes": 40.84, "available_bytes": 9.61, "total_bytes": 44.39},
    ),
    (
        "ValueError: Free memory on device cuda:1 (9.61/44.39 GiB) on startup is less than desired GPU memory utilization (0.92, 40.84 GiB).",
        {"gate": "start_memory", "resource": "device", "needed_bytes": 40.84, "available_bytes": 9.61},
    ),
    (
        "ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is needed, which is larger "
        "than the available KV cache memory (11.52 GiB). Based on the available memory, the estimated maximum model length is 94352.",
        {"gate": "kv_fits_request", "resource": "kv_blocks", "needed_bytes": 16.0, "available_bytes": 11.52, "needed_tokens": 131072},
    ),
    (
        "ValueError: To serve at least one request with the models's max seq len (131072), 16.00 GiB KV cache is needed, which is larger "
        "than the available KV cache memory (11.52 GiB).",
        {"gate": "kv_fits_request", "needed_bytes": 16.0},
    ),
    (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        {"gate": "kv_blocks", "resource": "device"},
    ),
    (
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (21504). Try",
        {"gate": "kv_fits_request", "needed_tokens": 32768, "available_tokens": 21504},
    ),
    (
        "AssertionError: Error in memory profiling. Initial free memory 21.50 GiB, current free memory 23.11 GiB. This happens when other processes",
        {"gate": "memory_profiling", "resource": "device"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), GATES)
@pytest.mark.parametrize("traceback", [False, True])
def test_gate(text: str, expected: dict[str, Any], traceback: bool) -> None:
    head = "(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108] "
    before = f'{head}Traceback (most recent call last):\n{head}  File "/srv/a.py", line 1, in check\n' if traceback else ""
    rows = read(f"{before}{head}{text}\n")
    (refusal,) = of_kind(rows, "refusal")
    for key, value in expected.items():
        wanted = round(value * 2**30) if key.endswith("_bytes") else value
        assert refusal[key] == wanted, key
    assert ("stack_id" in refusal) == traceback
    assert of_kind(rows, "oom") == []


@pytest.mark.parametrize(
    "text",
    [
        "EngineCore encountered a fatal error.",
        "EngineCore failed to start.",
        "WorkerProc failed to start.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ],
)
def test_engine_dead_is_told_once(text: str) -> None:
    fault = one(f"(APIServer pid=71) ERROR 03-14 15:12:11 [core.py:1108] {text}\n", "fault")
    assert (fault["code"], fault["fatal"]) == ("engine_dead", True)


def test_advice_below_warning_is_no_failure() -> None:
    log = (
        "(EngineCore_DP0 pid=98) INFO 03-14 15:12:08 [model_runner.py:1404] If out-of-memory error occurs during cudagraph capture, consider "
        "decreasing `gpu_memory_utilization`. CUDA out of memory may follow.\n"
    )
    assert of_kind(read(log), "oom", "refusal", "fault") == []


def test_a_warning_that_the_engine_did_without_is_survived() -> None:
    shortage = one(
        "(EngineCore_DP0 pid=98) WARNING 03-14 15:12:08 [autotuner.py:301] CUDA out of memory while tuning, falling back to the default config\n",
        "oom",
    )
    assert shortage["fatal"] is False
