# ruff: noqa: E501  (lines as the engine prints them)
"""TGI's reports beside those of the labelled family: what is left when only one of its processes was logged."""

import pytest

from tests.triage.engines.reports import Report, check

WARM = "2023-08-01T10:00:00.000000Z  INFO text_generation_router: router/src/main.rs:213: Warming up model\n"
UP = (
    WARM
    + "2023-08-01T10:00:09.000000Z  INFO text_generation_router: router/src/main.rs:240: Setting max batch total tokens to 16688\n2023-08-01T10:00:09.100000Z  INFO text_generation_router: router/src/main.rs:241: Connected\n"
)

REPORTS = (
    Report("the router's error alone", WARM + "2023-08-01T10:00:05.000000Z ERROR warmup{max_input_length=64 max_prefill_tokens=256}:warmup: text_generation_client: router/client/src/lib.rs:33: Server error: Not enough memory to handle 256 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n",
        "oom", "warm_up"),
    Report("its last line alone", 'Error: Warmup(Generation("Not enough memory to handle 16000 total tokens with 2 prefill tokens. You need to decrease `--max-batch-total-tokens` or `--max-batch-prefill-tokens`"))\n',
        "oom", "warm_up"),
    Report("one request does not fit in the cache", WARM + "Error: NotEnoughMemory(16384)\n", "capacity_gate", None, "kv_blocks", False),
    Report("tracing as JSON, the message at the top", UP + '{"timestamp":"2024-08-01T10:01:00.000000Z","level":"ERROR","message":"Server error: Out of available cache blocks: asked 107, only 4 free blocks","target":"text_generation_client","filename":"lib.rs","line_number":33}\n',
        "oom", "decode_growth", "kv_blocks"),
    Report("the shard is killed", WARM + "2023-08-01T10:00:05.000000Z ERROR text_generation_launcher: Shard process was signaled to shutdown with signal 9 rank=0\n",
        None, None, "host"),
    Report("a request that is too long is nothing of memory", UP + "2023-08-01T10:01:00.000000Z ERROR generate{parameters=GenerateParameters { max_new_tokens: Some(500) }}: text_generation_router::infer: router/src/infer.rs:100: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3900 `inputs` tokens and 500 `max_new_tokens`\n",
        "none"),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_report(report: Report) -> None:
    check(report)
