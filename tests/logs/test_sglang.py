"""SGLang's lines, old and new: one per rule, in the engine's format with this test's figures. Its GB are GiB."""

# ruff: noqa: E501  a line of a log is one line

from typing import Any

import pytest

from tests.logs.reading import of_kind, one, read

HEAD = "[2026-03-14 15:09:40 TP1] "


def gib(number: float) -> int:
    return round(number * 2**30)


def said(text: str, kind: str) -> list[dict[str, Any]]:
    return of_kind(read(f"{HEAD}{text}\n"), kind)


def component(name: str, number: float, owner: str | None) -> dict[str, Any]:
    fields = {"component": name, "lifetime": "worker", "bytes": gib(number), "resolution_bytes": 5368709}
    return fields if owner is None else {**fields, "owner": owner}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Init torch distributed ends. elapsed=2.91 s, mem usage=0.75 GB", [component("collective", 0.75, None)]),
        ("Init torch distributed ends. mem usage=0.75 GB", [component("collective", 0.75, None)]),
        ("Load weight end. elapsed=8.02 s, type=OtterForCausalLM, dtype=torch.bfloat16, avail mem=69.40 GB, mem usage=8.80 GB.", [component("weights", 8.8, "steady")]),
        ("Load weight end. type=OtterForCausalLM, dtype=torch.float16, avail mem=69.40 GB", []),
        ("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 611231, K size: 14.99 GB, V size: 14.99 GB", [component("kv_pool", 14.99, "k"), component("kv_pool", 14.99, "v")]),
        ("KV Cache is allocated. K size: 14.99 GB, V size: 14.99 GB.", []),
        ("MHA KV cache allocated. dtype: torch.bfloat16, #tokens: 611231, KV size: 29.98 GB, avail mem=10.02 GB", [component("kv_pool", 29.98, "kv")]),
        ("Capture cuda graph end. Time elapsed: 6.71 s. mem usage=0.44 GB. avail mem=9.58 GB.", [component("graph_pool", 0.44, "captured")]),
        ("Capture decode CUDA graph end. elapsed=6.71 s, mem usage=0.44 GB, avail mem=9.58 GB.", [component("graph_pool", 0.44, "captured")]),
    ],
)  # fmt: skip
def test_components(text: str, expected: list[dict[str, Any]]) -> None:
    assert said(text, "memory") == expected


@pytest.mark.parametrize(
    ("text", "free"),
    [
        ("Load weight begin. avail mem=78.20 GB", 78.2),
        ("Load weight end. elapsed=8.02 s, type=OtterForCausalLM, avail mem=69.40 GB, mem usage=8.80 GB.", 69.4),
        ("Memory pool end. avail mem=10.02 GB", 10.02),
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=10.02 GB", 10.02),
        ("Capture decode CUDA graph begin. backend=full, num_tokens_per_bs=1, bs [1, 2, 4], avail mem=10.02 GB", 10.02),
        ("Capture cuda graph end. Time elapsed: 6.71 s. mem usage=0.44 GB. avail mem=9.58 GB.", 9.58),
        (
            "max_total_num_tokens=611231, chunked_prefill_size=8192, max_prefill_tokens=16384, available_gpu_mem=9.58 GB",
            9.58,
        ),
    ],
)
def test_free(text: str, free: float) -> None:
    assert said(text, "device") == [{"free_bytes": gib(free), "resolution_bytes": 5368709}]


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("server_args=ServerArgs(model_path='acme/otter-9b', tp_size=2)", "spawned"),
        ("Init torch distributed begin.", "loading"),
        ("Load weight begin. avail mem=78.20 GB", "loading"),
        ("Multi-thread loading shards:   0% Completed | 0/4 [00:00<?, ?it/s]", "loading"),
        ("Load weight end. type=OtterForCausalLM, avail mem=69.40 GB", "weights_loaded"),
        ("KV Cache is allocated. #tokens: 611231, K size: 14.99 GB, V size: 14.99 GB", "kv_allocated"),
        ("Memory pool end. avail mem=10.02 GB", "kv_allocated"),
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=10.02 GB", "capturing"),
        ("Capturing batches (bs=160 avail_mem=9.91 GB):   0%|          | 0/23", "capturing"),
        ("The server is fired up and ready to roll!", "ready"),
        ("POST /release_memory_occupation", "sleeping"),
        ("POST /resume_memory_occupation", "waking"),
    ],
)
def test_phase(text: str, phase: str) -> None:
    assert [fields["phase"] for fields in said(text, "lifecycle")] == [phase]


def test_arguments() -> None:
    text = "server_args=ServerArgs(model_path='acme/otter-9b', tp_size=2, mem_fraction_static=0.88, api_key='sk-0000000000000000000', page_size=1)"
    assert {fields["key"]: fields["value"] for fields in said(text, "manifest") if fields["section"] == "argument"} == {
        "model_path": "acme/otter-9b", "tp_size": "2", "mem_fraction_static": "0.88", "page_size": "1",
    }  # fmt: skip


def test_limits() -> None:
    text = "max_total_num_tokens=611231, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=32768"
    assert said(text, "kv_pool") == [{"tier": "device", "total_tokens": 611231}]
    assert ("max_running_requests", "2048") in [(fields["key"], fields["value"]) for fields in said(text, "manifest")]


@pytest.mark.parametrize("stop", [",", "."])
def test_prefill_batch(stop: str) -> None:
    text = f"Prefill batch{stop} #new-seq: 3, #new-token: 8192, #cached-token: 512, token usage: 0.83, #running-req: 21, #queue-req: 4, "
    assert said(text, "step") == [
        {"mode": "prefill", "prefill_tokens": 8192, "cached_tokens": 512, "running_requests": 21, "waiting_requests": 4}
    ]
    (pool,) = said(text, "kv_pool")
    assert (pool["usage_ratio"], pool["usage_resolution_ratio"]) == (0.83, 0.005)
    assert "used_tokens" not in pool


@pytest.mark.parametrize("stop", [",", "."])
def test_decode_batch(stop: str) -> None:
    text = f"Decode batch{stop} #running-req: 9, #token: 250605, token usage: 0.41, cuda graph: True, gen throughput (token/s): 301.20, #queue-req: 2"
    (step,) = said(text, "step")
    assert (step["mode"], step["decode_tokens"], step["running_requests"], step["waiting_requests"]) == ("decode", 9, 9, 2)
    (pool,) = said(text, "kv_pool")
    assert (pool["usage_ratio"], pool["used_tokens"]) == (0.41, 250605)


def test_usage_of_several_pools() -> None:
    text = "Decode batch, #running-req: 9, #full token: 7, full token usage: 0.41, #swa token: 5, swa token usage: 0.93, mamba usage: 0.10"
    assert {fields["group_id"]: fields["usage_ratio"] for fields in said(text, "kv_pool")} == {
        None: 0.41,
        "swa": 0.93,
        "mamba": 0.1,
    }


@pytest.mark.parametrize(
    "tail", ["#new_token_ratio: 0.2816 -> 0.5127", "#new_tokens_gained: 811, #new_token_ratio: 0.2816 -> 0.5127", ""]
)
def test_retraction(tail: str) -> None:
    (shortage,) = said(f"KV cache pool is full. Retract requests. #retracted_reqs: 5, {tail}", "oom")
    assert (shortage["resource"], shortage["error_type"], shortage["requests"], shortage["fatal"]) == (
        "kv_blocks",
        "retraction",
        5,
        False,
    )


SHORTAGES = [
    ("Decode out of memory. Try to lower your batch size.\nTry to allocate 12 tokens.\nAvailable tokens: 3", "decode_out_of_memory", 12, 3),
    ("Prefill out of memory. Try to lower your batch size.\nTry to allocate 4096 tokens.\nAvaliable tokens: 811", "prefill_out_of_memory", 4096, 811),
    ("Prefill out of memory. Try to lower your batch size.\nTry to allocate 4096 tokens.\nself.token_to_kv_pool.available_size() = 811\n", "prefill_out_of_memory", 4096, 811),
    ("Decode out of memory. Try to lower your batch size.", "decode_out_of_memory", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("message", "event", "wanted", "there"), SHORTAGES)
def test_shortage_of_blocks_as_an_exception(message: str, event: str, wanted: int | None, there: int | None) -> None:
    log = f'{HEAD}Scheduler hit an exception: Traceback (most recent call last):\n  File "/srv/a.py", line 1, in alloc\n    x()\nRuntimeError: {message}\n\n'
    shortage = one(log, "oom")
    assert (shortage["resource"], shortage["error_type"], shortage["stack_id"]) == ("kv_blocks", event, "t1")
    assert (shortage.get("requested_tokens"), shortage.get("available_tokens")) == (wanted, there)


def test_shortage_of_blocks_as_a_line() -> None:
    (shortage,) = said("Decode out of memory. Try to lower your batch size.", "oom")
    assert (shortage["resource"], shortage["error_type"]) == ("kv_blocks", "decode_out_of_memory")


def test_no_space_for_one_request() -> None:
    shortage = one(
        'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in retract\nAssertionError: No space left for only one request\n',
        "oom",
    )
    assert shortage["resource"] == "kv_blocks"


@pytest.mark.parametrize(
    ("message", "gate"),
    [
        ("Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.20", "kv_blocks"),
        ("The memory capacity is unbalanced. Some GPUs may be occupied by other processes.", "unbalanced_memory"),
    ],
)
def test_gate(message: str, gate: str) -> None:
    log = f'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in init\n    x()\nRuntimeError: {message}\n'
    assert one(log, "refusal")["gate"] == gate
    assert of_kind(read(log), "oom") == []


CAPTURE = (
    '[2026-03-14 15:09:40] Scheduler hit an exception: Traceback (most recent call last):\n  File "/srv/a.py", line 1, in capture\n    x()\n'
    "Exception: Capture cuda graph failed: {}\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n3. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)\n\n"
)


def test_the_advice_after_a_failed_capture_is_no_evidence() -> None:
    rows = read(CAPTURE.format("invalid configuration argument"))
    assert of_kind(rows, "oom") == []
    assert [fields["code"] for fields in of_kind(rows, "fault")] == ["engine_dead", "capture_failed"]


def test_a_capture_that_failed_of_memory() -> None:
    message = "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 11.00 MiB is free."
    shortage = one(CAPTURE.format(message), "oom")
    assert (shortage["requested_bytes"], shortage["free_bytes"]) == (96 * 2**20, 11 * 2**20)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Received sigquit from a child process. It usually means the child failed.", "engine_dead"),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300)", "watchdog"),
        ("Watchdog timeout (self.watchdog_timeout=300)", "watchdog"),
    ],
)
def test_fault(text: str, code: str) -> None:
    (fault,) = said(text, "fault")
    assert (fault["code"], fault["fatal"]) == (code, True)
