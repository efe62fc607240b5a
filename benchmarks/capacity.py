"""`make bench-capacity`: what a replay and a decision cost, and how the best policy does on what it was not tuned on.

Needs the shared data (OOMCTL_SHARED) for all but the decisions; says so where it is not there.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import polars as pl

from benchmarks.cpu import cost
from benchmarks.table import Result, show
from oomctl.analyzers.capacity.admission import (
    EarlyRejection,
    Forecast,
    MaxTokens,
    Outputs,
    Policy,
    PredictiveRatio,
    Quantile,
    Request,
    State,
    SumQuantile,
    decide,
)
from oomctl.analyzers.capacity.replay.machine import Machine
from oomctl.analyzers.capacity.replay.policies import Plan, play
from oomctl.analyzers.capacity.replay.workload import Workload
from oomctl.schemas.trace import Trace
from oomctl.traces import open_trace
from tests.shared import SHARED

TRACES = SHARED / "data" / "traces"
CHAT = TRACES / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
HOUR = TRACES / "mooncake" / "conversation_trace.jsonl"
CODE = CHAT.with_name("AzureLLMInferenceTrace_code.csv")
SYNTHETIC = HOUR.with_name("synthetic_trace.jsonl")
CHAT_BLOCKS = 4000
BLOCK_TOKENS = 16
BURST_CV = 10.0
CROWDED = 0.1
PREFIX_BLOCKS = 60
P95, BEST, ORACLE = ("quantile:0.95", 0.0), ("forecast:3", 5.0), ("oracle", 0.0)
"""Policies, and for how many seconds who waits may be overtaken."""


def decisions() -> Iterator[Result]:
    """CPU time of a decision with 256 running."""
    drawn = Random(1)
    outputs = [min(1000, int(drawn.expovariate(1 / 200))) for _ in range(5000)]
    makers: list[Callable[[], Policy]] = [
        MaxTokens,
        lambda: Quantile(Outputs(outputs)),
        lambda: SumQuantile(Outputs(outputs)),
        lambda: Forecast(Outputs(outputs)),
        PredictiveRatio,
        lambda: EarlyRejection(Outputs(outputs)),
    ]
    for make in makers:
        for prefix_blocks in (0, PREFIX_BLOCKS):
            state = State(20_000, make())
            for number in range(256):
                common = tuple(range(prefix_blocks // 2)) if number % 2 else ()
                own = tuple(range(1000 * number + 1000, 1000 * number + 1000 + prefix_blocks - len(common)))
                state.enter(Request(str(number), 1000, 1000, common + own))
                state.produce(str(number), drawn.randrange(400))
                state.now_s += 0.01
            asks = Request("new", 1000, 1000, tuple(range(prefix_blocks)))
            name = f"decide() with 256 running, {state.policy.name}" + f", {prefix_blocks} blocks of prefix" * bool(
                prefix_blocks
            )
            yield Result(name, _decision_us(state, asks), 5, "us")


def _decision_us(state: State, asks: Request, count: int = 500) -> float:
    """The best of many short runs: what else runs on the machine slows most of them down."""
    best = float("inf")
    for _ in range(300):
        begin = time.process_time()
        for _ in range(count):
            decide(state, asks)
        best = min(best, time.process_time() - begin)
    return best / count * 1e6


def replays(folder: Path) -> Iterator[Result]:
    """The 12,031 requests of Mooncake's hour, by the command, and half of them."""
    half = folder / "half.jsonl"
    with HOUR.open() as lines:
        half.write_text("".join(islice(lines, 6015)))
    command = ["-m", "oomctl", "capacity", "replay", "--prefill-rate", "50000", "--policy", "forecast", "--json"]
    whole_s, whole_mib = cost([*command, str(HOUR), "--blocks", "60000"])
    half_s, _ = cost([*command, str(half), "--blocks", "60000"])
    yield Result("replay of the Mooncake hour, CPU seconds", whole_s, 15)
    yield Result("its peak resident MB", whole_mib * 2**20 / 1e6, 500)
    start_s, _ = cost([*command, str(_few(folder)), "--blocks", "60000"])
    yield Result("whole / 2 halves, without the start", (whole_s - start_s) / (2 * (half_s - start_s)), 1.3)


def _few(folder: Path) -> Path:
    few = folder / "few.jsonl"
    with HOUR.open() as lines:
        few.write_text("".join(islice(lines, 2)))
    return few


def policies() -> Iterator[Result]:
    """The best policy beside the quantile p95, at fixed speeds, growth counted; it was tuned on the chat's first half.

    The pools are the reference's, and for each trace the smallest in which p95 lets at most CROWDED of the requests wait or
    go: with less than that nobody's rule helps, with more there is no question.
    """
    chat = open_trace([str(CHAT)], _quiet)
    middle = len(chat) // 2
    first, second = chat.take(np.arange(middle)), _from_zero(chat.take(np.arange(middle, len(chat))))
    history = Workload(first).outputs
    yield from _beside("chat, first half (tuned on it)", Workload(first), [], CHAT_BLOCKS)
    yield from _beside("chat, second half", Workload(second), history, CHAT_BLOCKS)
    yield from _beside("chat, second half", Workload(second), history)
    yield from _beside(f"second half, gamma gaps of CV {BURST_CV:g}", Workload(_burst(second)), history)
    for name, path in (("code", CODE), ("conversation", HOUR), ("synthetic", SYNTHETIC)):
        yield from _beside(name, Workload(replace(open_trace([str(path)], _quiet), prefixes=None)), [])


def _beside(name: str, work: Workload, history: list[int], blocks: int | None = None) -> Iterator[Result]:
    pool = blocks if blocks is not None else _crowded(work, history)
    usual, best, oracle = (_play(work, policy, pool, history) for policy in (P95, BEST, ORACLE))
    label = f"{name}, {pool:,} blocks: queued {best.queued:,} / {usual.queued:,}"
    possible = oracle.queued / max(1, usual.queued)
    note = f"oracle in order: {possible:.2f}" + (", so a half is out of reach" if possible > 0.5 else "")
    yield Result(label, best.queued / max(1, usual.queued), max(0.5, possible), note=note)
    yield Result(f"{name}: rejected beyond p95's {usual.rejected:,}", best.rejected - usual.rejected, 0)
    yield Result(f"{name}: peak / pool", best.peak_blocks / pool, 1)


def _crowded(work: Workload, history: list[int]) -> int:
    """The smallest pool, to a hundredth, in which p95 queues or rejects no more than CROWDED of the requests."""

    def is_crowded(blocks: int) -> bool:
        played = _play(work, P95, blocks, history)
        return played.queued + played.rejected > CROWDED * len(work)

    low = high = max(-(-(job.prompt_tokens + job.output_tokens) // BLOCK_TOKENS) for job in work.jobs)
    while is_crowded(high):
        low, high = high, 2 * high
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if is_crowded(middle) else (low, middle)
    return high


class _Played(NamedTuple):
    queued: int
    rejected: int
    peak_blocks: int


def _play(work: Workload, policy: tuple[str, float], blocks: int, history: list[int]) -> _Played:
    name, overtake_s = policy
    run = play(work, Plan(Machine(blocks, BLOCK_TOKENS), name, "fixed", overtake_s=overtake_s, history=history))
    rejected = sum(each.fate == "rejected" for each in run.outcomes)
    return _Played(sum(each.queued for each in run.outcomes), rejected, run.usage.peak_blocks)


def _from_zero(trace: Trace) -> Trace:
    arrivals = trace.requests["arrival_s"]
    return replace(trace, requests=trace.requests.with_columns(arrivals - arrivals[0]))


def _burst(trace: Trace) -> Trace:
    """The same requests, their gaps drawn anew with the same mean."""
    arrivals = trace.requests["arrival_s"]
    shape = 1 / BURST_CV**2
    mean_s = float(arrivals[-1] - arrivals[0]) / len(trace)
    gaps_s = np.random.default_rng(1).gamma(shape, mean_s / shape, len(trace))
    return replace(trace, requests=trace.requests.with_columns(pl.Series("arrival_s", np.cumsum(gaps_s))))


def _quiet(error: Exception) -> None:
    """Nothing of these files is skipped."""


def measure(folder: Path) -> Iterator[Result]:
    """Each figure as soon as it is known."""
    yield from decisions()
    if not HOUR.exists():
        yield Result("replays and policies", None, note="no shared data (OOMCTL_SHARED)")
        return
    yield from replays(folder)
    yield from policies()


def main() -> int:
    """Print the table; 1 if a limit is missed."""
    with tempfile.TemporaryDirectory(prefix="oomctl-bench-") as folder:
        return show(measure(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
