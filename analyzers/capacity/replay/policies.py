"""Policies by the names that the command line knows, and a replay by its options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from oomctl.analyzers.capacity.admission import (
    EarlyRejection,
    Forecast,
    Known,
    MaxTokens,
    Oracle,
    Outputs,
    Policy,
    PredictiveRatio,
    Quantile,
    State,
    SumQuantile,
)
from oomctl.analyzers.capacity.replay.engine import Engine
from oomctl.analyzers.capacity.replay.fixed import replay_fixed
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.machine import Machine
from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.watch import SILENT, Watch
from oomctl.analyzers.capacity.replay.workload import Workload
from oomctl.schemas.errors import ExitCode, OomctlError

Compute = Literal["engine", "fixed", "reserved"]
ENGINE = "engine"
"""No policy: the engine admits by itself what fits now, and preempts."""

PLAIN: dict[str, Callable[[Outputs], Policy]] = {
    "max-tokens": lambda _: MaxTokens(),
    "ratio": lambda _: PredictiveRatio(),
    "early-rejection": EarlyRejection,
    "known": lambda _: Known(),
    "oracle": lambda _: Oracle(),
}
TUNED: dict[str, tuple[Callable[[Outputs, float], Policy], float, float]] = {
    "quantile": (Quantile, 0.95, 1.0),
    "sum-quantile": (SumQuantile, 2.33, 100.0),
    "forecast": (Forecast, 3.0, 100.0),
}
"""Name to (what makes it, its figure, the largest that makes sense)."""
NAMES = (ENGINE, *PLAIN, *TUNED)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to replay.

    Attributes:
        machine: The engine and its pool.
        policy: A name, with its figure after a colon where it has one: quantile:0.99.
        compute: engine: a scheduler with steps; fixed: each request at the same speed, whatever runs beside it; reserved:
            the same, where a policy is never told what was generated.
        queue_limit: Requests that may wait for the policy.
        overtake_s: How long they may be overtaken by those that fit.
        safety_blocks: Never promised.
        history: Outputs that the policy has seen before; it learns from those that finish, but where compute is reserved.
    """

    machine: Machine
    policy: str = ENGINE
    compute: Compute = "engine"
    queue_limit: int = 100
    overtake_s: float = 0.0
    safety_blocks: int = 0
    history: Sequence[int] = ()


def make_policy(text: str, outputs: Outputs) -> Policy | None:
    """A policy by its name; None for the engine's own.

    Raises:
        OomctlError: If there is none of that name, or its figure is out of range.
    """
    name, colon, figure = text.partition(":")
    if name == ENGINE and not colon:
        return None
    if name in PLAIN and not colon:
        return PLAIN[name](outputs)
    if name in TUNED:
        make, usual, most = TUNED[name]
        try:
            value = float(figure) if colon else usual
        except ValueError:
            value = -1.0
        if 0 <= value <= most:
            return make(outputs, value)
    raise OomctlError(
        f'no policy "{text[:40]}"',
        f"known: {', '.join(NAMES)}; {', '.join(TUNED)} take a figure: forecast:3",
        ExitCode.USAGE,
    )


def play(workload: Workload, plan: Plan, watch: Watch = SILENT) -> Run:
    """Replay a workload.

    Raises:
        OomctlError: If the plan does not go with it.
    """
    machine = plan.machine
    hash_tokens = workload.hash_tokens or machine.block_tokens
    if hash_tokens % machine.block_tokens:
        raise OomctlError(
            f"a hash of {workload.name} stands for {hash_tokens} tokens, no multiple of a block's {machine.block_tokens}",
            f"--block-size {hash_tokens}, or a divisor of it",
            ExitCode.USAGE,
        )
    if not plan.safety_blocks < machine.total_blocks:
        raise OomctlError("the safety margin is no part of the pool", "less than --blocks", ExitCode.USAGE)
    policy = make_policy(plan.policy, Outputs(plan.history, learns=plan.compute != "reserved"))
    if plan.compute == "engine":
        state = None if policy is None else _state(policy, plan, hash_tokens // machine.block_tokens)
        return Engine(workload, machine, Gate(state), watch).play()
    if policy is None:
        raise OomctlError(
            "without an engine's scheduler a policy is needed", f"one of {', '.join(NAMES[1:])}", ExitCode.USAGE
        )
    if any(job.next_turn is not None for job in workload.jobs):
        raise OomctlError("sessions are replayed by an engine only", "--compute engine", ExitCode.USAGE)
    return replay_fixed(workload, _state(policy, plan, 1), counts_growth=plan.compute == "fixed")


def _state(policy: Policy, plan: Plan, hash_blocks: int) -> State:
    machine = plan.machine
    return State(
        machine.total_blocks,
        policy,
        block_tokens=machine.block_tokens,
        hash_blocks=hash_blocks,
        safety_blocks=plan.safety_blocks,
        queue_limit=plan.queue_limit,
        overtake_s=plan.overtake_s,
        prefill_tokens_per_s=machine.prefill_tokens_per_s,
        tpot_s=machine.tpot_s,
    )
