"""Requests out of engines' own logs; the lines are made here, from what the engines print."""

from pathlib import Path

import pytest

from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Trace
from oomctl.traces import open_trace

VLLM = "(APIServer pid=71) INFO 03-14 15:12:0{at} [logger.py:39] "
PARAMS = "params: SamplingParams(n=1, stop=[], max_tokens={most}, logprobs=None), "
NO_LORA = "lora_request: None."


def read(path: Path, *lines: str) -> Trace:
    log = path / "worker.log"
    log.write_text("\n".join(lines) + "\n")
    return open_trace([str(log)], print)


def test_vllm_as_it_once_was(tmp_path: Path) -> None:
    """Prompt, ids and parameters on one line; what a user wrote tells nothing."""
    lora = "lora_request: LoRARequest(lora_name='sql', lora_int_id=1)."
    trace = read(
        tmp_path,
        VLLM.format(at=1)
        + "Received request cmpl-a-0: prompt: 'SamplingParams(max_tokens=9) prompt_token_ids: [1]', "
        + PARAMS.format(most=16)
        + "prompt_token_ids: [1, 2, 3, 4], "
        + lora,
        VLLM.format(at=3)
        + "Received request cmpl-b-0: prompt: None, "
        + PARAMS.format(most=8)
        + "prompt_token_ids: [5], "
        + NO_LORA,
        VLLM.format(at=4)
        + "Generated response cmpl-a (streaming delta): output: 'x', output_token_ids: [7], finish_reason: None",
        VLLM.format(at=5)
        + "Generated response cmpl-a (streaming complete): output: 'output_token_ids: [1]', output_token_ids: [7, 8, 9], "
        "finish_reason: stop",
        VLLM.format(at=6) + "Generated response cmpl-b-0: output: '', output_token_ids: [], finish_reason: abort",
    )
    table = trace.requests
    assert trace.format == "log"
    assert table["arrival_s"].to_list() == [0.0, 2.0]
    assert table["prompt_tokens"].to_list() == [4, 1]
    assert table["output_tokens"].to_list() == [3, 0]
    assert table["max_output_tokens"].to_list() == [16, 8]
    assert table["service_s"].to_list() == [4.0, 3.0]
    assert table["adapter"].to_list() == ["sql", None]
    assert table["status"].to_list() == ["ok", "cancelled"]


def test_vllm_tells_ids_at_debug_only(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        VLLM.format(at=1).replace("INFO", "DEBUG")
        + "Request cmpl-a-0 details: prompt: 'x', prompt_token_ids: [1, 2], prompt_embeds shape: None.",
        VLLM.format(at=1) + "Received request cmpl-a-0: " + PARAMS.format(most=16) + NO_LORA,
        VLLM.format(at=2) + "Received request cmpl-b-0: " + PARAMS.format(most=16) + NO_LORA,
    )
    assert trace.requests.select("request", "prompt_tokens", "max_output_tokens").rows() == [("cmpl-a-0", 2, 16)]
    assert [(finding.code, finding.count) for finding in trace.findings] == [("unread", 1)]


META = "'meta_info': {'id': 'r1', 'finish_reason': {'type': 'length', 'length': 20}, 'prompt_tokens': 70, "
META += "'completion_tokens': 20, 'cached_tokens': 64, 'e2e_latency': 2.5}"


def test_sglang(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "[2026-03-14 15:12:01 TP0] Receive: obj=GenerateReqInput(rid='r0', text='hello')",
        "[2026-03-14 15:12:05 TP0] Finish: obj=GenerateReqInput(rid='r1', sampling_params={'max_new_tokens': 32}), "
        "out={'text': \"'meta_info': {'prompt_tokens': 1}\", " + META + "}",
        "[2026-03-14 15:12:06 TP0] Finish: obj=GenerateReqInput(rid='r0'), out={'meta_info': {'finish_reason': "
        "{'type': 'abort'}, 'prompt_tokens': 5, 'completion_tokens': 2, 'cached_tokens': 0}}",
    )
    names = (
        "request",
        "arrival_s",
        "service_s",
        "prompt_tokens",
        "output_tokens",
        "cached_tokens",
        "max_output_tokens",
        "status",
    )
    assert trace.requests.select(names).rows() == [
        ("r0", 0.0, 5.0, 5, 2, 0, None, "cancelled"),
        ("r1", 1.5, 2.5, 70, 20, 64, 32, "ok"),
    ]


def test_sglang_as_json(tmp_path: Path) -> None:
    finished = '{"timestamp": "2026-03-14T15:12:0%d.5", "event": "request.finished", "rid": "r%d", "obj": {}, "out": '
    meta = '{"text": "x", "meta_info": {"finish_reason": {"type": "stop"}, "prompt_tokens": 7, "completion_tokens": 3}}}'
    received = '{"timestamp": "2026-03-14T15:12:01.5", "event": "request.received", "rid": "r1", "obj": {}}'
    trace = read(tmp_path, received, finished % (4, 1) + meta)
    assert trace.requests.select("arrival_s", "service_s", "prompt_tokens", "output_tokens").rows() == [(0.0, 3.0, 7, 3)]


def test_prompts_that_were_cut_off(tmp_path: Path) -> None:
    ids = [", ".join("1" * count) for count in [3, 4, *[9] * 10]]
    lines = [
        VLLM.format(at=1) + f"Received request r{n}: prompt: '', prompt_token_ids: [{one}]." for n, one in enumerate(ids)
    ]
    first = read(tmp_path, *lines).findings[0]
    assert (first.code, first.count) == ("cut_prompts", 10)


def test_requests_without_lengths_are_no_trace(tmp_path: Path) -> None:
    with pytest.raises(OomctlError, match="no request with a prompt's length"):
        read(tmp_path, VLLM.format(at=1) + "Received request cmpl-b-0: " + PARAMS.format(most=16) + NO_LORA)
