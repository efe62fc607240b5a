"""Public traces: the figures that others measured on them (the shared data's reference page)."""

from dataclasses import replace

import pytest

from oomctl.analyzers.capacity.replay.machine import Machine
from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.policies import Plan, play
from oomctl.analyzers.capacity.replay.workload import Workload
from oomctl.analyzers.capacity.waits.report import report
from oomctl.analyzers.capacity.waits.waste import Costs
from oomctl.schemas.errors import OomctlError
from oomctl.traces import open_trace
from tests.shared import shared

pytestmark = pytest.mark.slow


def _nothing_skipped(error: OomctlError) -> None:
    raise error


def _counts(run: Run) -> tuple[int, int, int, int]:
    """(admitted at once, queued, rejected, peak need)."""
    outcomes = run.outcomes
    return (
        sum(each.fate == "finished" and not each.queued for each in outcomes),
        sum(each.queued for each in outcomes),
        sum(each.fate == "rejected" for each in outcomes),
        run.peak_need_blocks,
    )


def test_admission_of_the_chat_trace() -> None:
    path = shared("data", "traces", "azure2023", "AzureLLMInferenceTrace_conv.csv")
    work = Workload(open_trace([str(path)], _nothing_skipped))

    def run(policy: str) -> Run:
        return play(work, Plan(Machine(4000), policy, "reserved", history=work.outputs))

    assert _counts(run("quantile:0.5")) == (17_839, 1_527, 0, 5_058)
    assert _counts(run("quantile:0.95")) == (9_851, 9_515, 0, 4_029)
    assert _counts(run("quantile:0.99")) == (4_749, 14_126, 491, 3_679)
    assert _counts(run("known")) == (13_927, 5_439, 0, 4_000)


@pytest.mark.parametrize(("name", "ratio"), [("conversation", 0.373379905854133), ("synthetic", 0.6504309495925035)])
def test_an_endless_cache_finds_what_dynamo_finds(name: str, ratio: float) -> None:
    path = shared("data", "traces", "mooncake", f"{name}_trace.jsonl")
    work = Workload(open_trace([str(path)], _nothing_skipped))
    # Fast enough that nothing overlaps: what is found is then a matter of order alone.
    run = play(work, Plan(Machine(10**9, 512, prefill_tokens_per_s=1e12, tpot_s=1e-9)))
    assert sum(each.hit_tokens for each in run.outcomes) / sum(job.prompt_tokens for job in run.jobs) == ratio


def test_pauses_of_coding_sessions() -> None:
    path = shared("data", "traces", "weka_cc", "claude_code_710_sessions.tar.zst")
    trace = replace(open_trace([str(path)], lambda error: None), prefixes=None)
    found = report(trace, Costs(), 60.0)
    assert found.pauses == 38_144
    waste = found.waste
    assert [f"{each:.4g}" for each in (waste.preserve, waste.recompute, waste.offload, waste.oracle_without_link)] == [
        "2.203e+11", "1.014e+11", "8.412e+09", "5.252e+10",
    ]  # fmt: skip
    assert (waste.offloaded, waste.oracle_recomputed) == (37_938, 15_585)
    for outcome in (found.rule_without_link, found.rule):
        assert outcome.times_oracle is not None and outcome.times_oracle < 1.5
