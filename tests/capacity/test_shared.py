"""The published traces give the published figures, and their traps are found (shared/reference/capacity.md)."""

import pytest

from oomctl.analyzers.capacity.cohorts import cohorts
from oomctl.schemas.cohorts import Cohorts, Spread
from oomctl.traces import open_trace
from tests.shared import shared


def read(*parts: str) -> Cohorts:
    problems: list[Exception] = []
    found = cohorts(open_trace([str(shared("data", "traces", *parts))], problems.append))
    assert problems == []
    return found


def quantiles(spread: Spread) -> list[float | None]:
    return [None if value is None else round(value, 2) for value in (spread.p50, spread.p95, spread.p99)]


def traps(found: Cohorts) -> dict[str, int]:
    return {trap.code: trap.count for trap in found.findings}


def test_mooncake_conversation() -> None:
    found = read("mooncake", "conversation_trace.jsonl")
    own = found.cohorts[0]
    assert traps(found) == {"quantised_times": 1180, "ceil_blocks": 288500}
    assert quantiles(own.prompt_tokens) == [6909, 39550.5, 85400.4]
    assert quantiles(own.output_tokens) == [350, 698, 1118.5]
    assert own.prefix is not None
    assert (round(own.prefix.block_ratio or 0, 5), round(own.prefix.token_ratio or 0, 5)) == (0.36641, 0.37362)
    assert own.prefix.engine_ratio == 0.373379905854133
    assert [round(ratio, 4) for ratio in own.prefix.lru_ratio.values()] == [0.0454, 0.0666, 0.2157, 0.3322, 0.3708]
    assert round(own.arrivals.rate_per_s or 0, 2) == 3.40
    assert own.arrivals.gap_cv is None
    first = own.arrivals.windows[0]
    assert (first.seconds, round(first.dispersion, 2)) == (10, 2.10)
    assert own.concurrency is not None
    assert own.concurrency.requests.p99 == 63
    assert quantiles(own.concurrency.reserved_tokens) == [614976, 943568, 1051168]
    assert own.concurrency.reserved_tokens.max == 1210384


def test_mooncake_synthetic() -> None:
    found = read("mooncake", "synthetic_trace.jsonl")
    own = found.cohorts[0]
    assert traps(found) == {"ceil_blocks": 121877}
    assert quantiles(own.prompt_tokens) == [11587, 48904.6, 66456.16]
    assert quantiles(own.output_tokens) == [69, 519, 768.08]
    assert own.prefix is not None
    assert (round(own.prefix.block_ratio or 0, 5), round(own.prefix.token_ratio or 0, 5)) == (0.63960, 0.65124)
    assert own.prefix.engine_ratio == 0.6504309495925035
    assert [round(ratio, 4) for ratio in own.prefix.lru_ratio.values()] == [0.0857, 0.1942, 0.4318, 0.6356, 0.6512]


def test_azure() -> None:
    found = read("azure2023", "AzureLLMInferenceTrace_code.csv")
    own = found.cohorts[0]
    assert (own.requests, found.start) == (8819, "2023-11-16 18:17:03.9799600")
    assert quantiles(own.prompt_tokens) == [1469, 7303.3, 7436]
    assert quantiles(own.output_tokens) == [13, 90, 251.46]
    assert round(own.arrivals.gap_cv or 0, 2) == 13.15
    windows = {window.seconds: window for window in own.arrivals.windows}
    assert round(windows[10].dispersion, 1) == 71.6
    assert (round(windows[1].peak_to_mean, 1), round(windows[60].peak_to_mean, 2)) == (26.1, 4.18)
    assert own.concurrency is not None
    assert quantiles(own.concurrency.reserved_tokens) == [0, 36576, 70432]
    assert own.concurrency.reserved_tokens.max == 176320

    own = read("azure2023", "AzureLLMInferenceTrace_conv.csv").cohorts[0]
    assert own.requests == 19366  # the last line has no newline
    assert quantiles(own.prompt_tokens) == [1020, 4083, 4142]
    assert quantiles(own.output_tokens) == [129, 451, 601]
    assert round(own.arrivals.gap_cv or 0, 3) == 1.094
    assert round(own.arrivals.windows[2].dispersion, 1) == 16.1
    assert own.concurrency is not None
    assert quantiles(own.concurrency.reserved_tokens) == [50880, 73600, 84192]
    assert own.concurrency.reserved_tokens.max == 97696


@pytest.mark.slow  # 85 million hashes: 10 s
def test_sessions_of_claude_code() -> None:
    found = read("weka_cc", "claude_code_710_sessions.tar.zst")
    assert (found.requests, found.sessions) == (46218, 692)
    assert traps(found) == {
        "duplicate_sessions": 18,
        "local_hashes": 692,
        "coarse_pauses": 45347,
        "subagents": 676,
        "shrinking_prompts": 386,
        "floor_blocks": 85405325,
    }
    own = found.cohorts[1]
    assert (own.name, own.requests) == ("sessions", 45542)
    assert quantiles(own.prompt_tokens) == [101495, 308836.25, 507924.37]
    assert quantiles(own.output_tokens) == [217, 1527.9, 3678.36]
    assert own.prefix is not None
    assert (round(own.prefix.block_ratio or 0, 5), round(own.prefix.token_ratio or 0, 5)) == (0.96310, 0.96285)
    assert own.turns is not None
    assert own.turns.turns_p50 == 44
    tool = own.pauses[0]
    assert (tool.kind, tool.seconds.count) == ("tool", 38144)
    assert [round(value or 0) for value in (tool.seconds.p50, tool.seconds.p90, tool.seconds.p95, tool.seconds.p99)] == [
        9,
        70,
        146,
        613,
    ]
    assert tool.seconds.max == 37415
    assert round(tool.held_tokens.p50 or 0, -3) == 100_000
    assert [round(100 * one.share_of_token_seconds) for one in tool.longer if one.share_of_token_seconds] == [77, 55]
    assert [round(100 * one.share_of_pauses, 1) for one in tool.longer] == [11.5, 2.8]
    assert round((tool.token_seconds or 0) / 1e11, 3) == 2.203
    assert round(tool.reusable_ratio or 0, 4) == 0.9796
