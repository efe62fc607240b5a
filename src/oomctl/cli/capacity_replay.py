"""`oomctl capacity replay` and `limit`: what a pool would have done with a trace, and how far it goes."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.capacity_cohorts import BlockOption, PrefillOption, RulesOption, TpotOption, TraceArgument
from oomctl.cli.capacity_limits import LimitsOption
from oomctl.cli.options import JsonOption, page_width, use_colour
from oomctl.cli.output import ForceOption
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.analyzers.capacity.replay.policies import Plan
    from oomctl.schemas.replay import Slo


class ToolWaits(StrEnum):
    """What becomes of a context while its session waits for a tool."""

    RECOMPUTE = "recompute"
    PRESERVE = "preserve"
    OFFLOAD = "offload"


BlocksOption = Annotated[int, typer.Option("--blocks", min=1, max=2**40, help="Blocks of the pool.")]
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="engine, max-tokens, quantile[:0.95], sum-quantile[:2.33], forecast[:3], ratio, early-rejection; of what will "
        "be: known, oracle.",
    ),
]
QueueOption = Annotated[int, typer.Option("--queue-limit", min=0, help="Requests that may wait for the policy.")]
OvertakeOption = Annotated[
    float,
    typer.Option(
        "--overtake", metavar="SECONDS", min=0.0, help="How long those that wait may be passed by those that fit; 0: never."
    ),
]
SafetyOption = Annotated[int, typer.Option("--safety-blocks", min=0, help="Blocks that the policy never promises.")]
HistoryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--history", metavar="TRACE", help="A trace whose outputs the policy has seen; else it learns on the way."
    ),
]
SeqsOption = Annotated[int, typer.Option("--max-num-seqs", min=1, help="Requests that run at once.")]
BatchOption = Annotated[int, typer.Option("--max-num-batched-tokens", min=1, help="Tokens of a step.")]
CachingOption = Annotated[bool, typer.Option("--prefix-caching/--no-prefix-caching", help="Keep what requests leave.")]
WaitsOption = Annotated[
    ToolWaits, typer.Option("--tool-waits", help="Of a context while its tool runs: to the cache, kept, or to the host.")
]
SpeedupOption = Annotated[float, typer.Option("--speedup", min=0.001, help="Play the arrivals so many times as fast.")]
MaxOutputOption = Annotated[
    int | None,
    typer.Option("--max-output-tokens", min=1, help="Allowed output where a trace does not tell; else its longest."),
]
BranchesOption = Annotated[int, typer.Option("--branches", min=1, max=64, help="Sequences per request: n, beams.")]
GapOption = Annotated[
    float, typer.Option("--session-gap", min=0.0, help="Seconds between sessions that have each its own clock.")
]
CancelOption = Annotated[float, typer.Option("--cancel-share", min=0.0, max=1.0, help="Share of requests given up.")]
CancelAfterOption = Annotated[float, typer.Option("--cancel-after", min=0.0, help="Seconds until they are.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Of what is drawn.")]
TtftOption = Annotated[float, typer.Option("--slo-ttft", min=0.0, help="Seconds to the first token of a good answer.")]
SloTpotOption = Annotated[float, typer.Option("--slo-tpot-ms", min=0.0, help="Mean time of a further token in one.")]


class Compute(StrEnum):
    """How fast requests run."""

    ENGINE = "engine"
    FIXED = "fixed"
    RESERVED = "reserved"


class Searched(StrEnum):
    """What a limit is searched of."""

    RATE = "rate"
    BLOCKS = "blocks"


def replay(
    paths: TraceArgument,
    blocks: BlocksOption,
    limits: LimitsOption = None,
    policy: PolicyOption = "engine",
    compute: Annotated[
        Compute,
        typer.Option(
            "--compute",
            help="engine: steps with chunked prefill and preemption; fixed: each request at its own speed, whatever runs "
            "beside it; reserved: the same, and a policy hears nothing of growth.",
        ),
    ] = Compute.ENGINE,
    queue_limit: QueueOption = 100,
    overtake: OvertakeOption = 0.0,
    safety_blocks: SafetyOption = 0,
    history: HistoryOption = None,
    block_size: BlockOption = 16,
    prefill_rate: PrefillOption = 8000.0,
    tpot_ms: TpotOption = 30.0,
    max_num_seqs: SeqsOption = 256,
    max_num_batched_tokens: BatchOption = 8192,
    prefix_caching: CachingOption = True,
    tool_waits: WaitsOption = ToolWaits.RECOMPUTE,
    speedup: SpeedupOption = 1.0,
    max_output_tokens: MaxOutputOption = None,
    branches: BranchesOption = 1,
    session_gap: GapOption = 30.0,
    cancel_share: CancelOption = 0.0,
    cancel_after: CancelAfterOption = 10.0,
    seed: SeedOption = 0,
    slo_ttft: TtftOption = 10.0,
    slo_tpot_ms: SloTpotOption = 100.0,
    rules: RulesOption = None,
    emit: Annotated[
        str | None, typer.Option("--emit", metavar="FILE", help="Keep it as an event table: .parquet, .jsonl or .csv.")
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Replay a trace against a pool of KV blocks: admitted, queued, rejected, preempted, reused, in time."""
    from oomctl.cli import output as outputs

    target = None if emit is None else outputs.check(emit, paths, force)
    if target is not None and compute is not Compute.ENGINE:
        raise OomctlError("only an engine's replay is kept as events", "--compute engine", ExitCode.USAGE)
    from oomctl.analyzers.capacity.replay.policies import play
    from oomctl.analyzers.capacity.replay.report import report
    from oomctl.analyzers.capacity.replay.rows import Recorder
    from oomctl.analyzers.capacity.replay.watch import SILENT
    from oomctl.analyzers.capacity.replay.workload import Options, Workload
    from oomctl.analyzers.capacity.rules import assign, default_rules, read_rules
    from oomctl.cli.boundary import warn
    from oomctl.traces import open_trace

    trace = open_trace(paths, warn)
    options = Options(speedup, max_output_tokens, branches, session_gap, cancel_share, cancel_after, seed)
    wanted = default_rules(trace) if rules is None else read_rules(rules)
    workload = Workload(trace, options, assign(trace, wanted).to_list())
    plan = _plan(
        blocks, block_size, max_num_seqs, max_num_batched_tokens, prefill_rate, tpot_ms, prefix_caching, tool_waits,
        policy, compute.value, queue_limit, overtake, safety_blocks, history,
    )  # fmt: skip
    recorder = None if target is None else Recorder(policy)
    run = play(workload, plan, recorder or SILENT)
    found = report(run, trace.name, compute.value, _slo(slo_ttft, slo_tpot_ms))
    if target is not None and recorder is not None:
        from oomctl.schemas import storage

        connection = storage.connect()
        try:
            rows = storage.load_rows(connection, recorder.rows)
            outputs.write(connection, target, rows)
        finally:
            connection.close()
    if json:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.replay import replay_text

    sys.stdout.write(replay_text(found, page_width(), use_colour()))


def limit(
    paths: TraceArgument,
    blocks: BlocksOption,
    limits: LimitsOption = None,
    search: Annotated[Searched, typer.Option("--search", help="The highest rate, or the fewest blocks.")] = Searched.RATE,
    share: Annotated[float, typer.Option("--share", min=0.0, max=1.0, help="Of the requests that must be good.")] = 0.9,
    policy: PolicyOption = "engine",
    queue_limit: QueueOption = 100,
    overtake: OvertakeOption = 0.0,
    safety_blocks: SafetyOption = 0,
    history: HistoryOption = None,
    block_size: BlockOption = 16,
    prefill_rate: PrefillOption = 8000.0,
    tpot_ms: TpotOption = 30.0,
    max_num_seqs: SeqsOption = 256,
    max_num_batched_tokens: BatchOption = 8192,
    prefix_caching: CachingOption = True,
    tool_waits: WaitsOption = ToolWaits.RECOMPUTE,
    speedup: SpeedupOption = 1.0,
    max_output_tokens: MaxOutputOption = None,
    session_gap: GapOption = 30.0,
    slo_ttft: TtftOption = 10.0,
    slo_tpot_ms: SloTpotOption = 100.0,
    json: JsonOption = False,
) -> None:
    """Search the highest rate or the smallest pool that keeps an SLO, and say what breaks first: memory or the SLO."""
    from oomctl.analyzers.capacity.replay.limit import limit as run
    from oomctl.analyzers.capacity.replay.workload import Options
    from oomctl.cli.boundary import warn
    from oomctl.traces import open_trace

    trace = open_trace(paths, warn)
    plan = _plan(
        blocks, block_size, max_num_seqs, max_num_batched_tokens, prefill_rate, tpot_ms, prefix_caching, tool_waits,
        policy, "engine", queue_limit, overtake, safety_blocks, history,
    )  # fmt: skip
    options = Options(speedup, max_output_tokens, session_gap_s=session_gap)
    found = run(trace, options, plan, _slo(slo_ttft, slo_tpot_ms), share, search.value)
    if json:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.replay import limit_text

    sys.stdout.write(limit_text(found, page_width(), use_colour()))


def _plan(
    blocks: int,
    block_size: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    prefill_rate: float,
    tpot_ms: float,
    prefix_caching: bool,
    tool_waits: ToolWaits,
    policy: str,
    compute: str,
    queue_limit: int,
    overtake_s: float,
    safety_blocks: int,
    history: list[str] | None,
) -> "Plan":
    from oomctl.analyzers.capacity.replay.machine import Machine
    from oomctl.analyzers.capacity.replay.policies import Plan

    machine = Machine(
        blocks, block_size, max_num_seqs, max_num_batched_tokens, prefill_rate, tpot_ms / 1000, prefix_caching,
        tool_waits=tool_waits.value,
    )  # fmt: skip
    return Plan(machine, policy, compute, queue_limit, overtake_s, safety_blocks, _outputs(history))  # type: ignore[arg-type]


def _outputs(history: list[str] | None) -> list[int]:
    if not history:
        return []
    from oomctl.analyzers.capacity.replay.workload import Workload
    from oomctl.cli.boundary import warn
    from oomctl.traces import open_trace

    return Workload(open_trace(history, warn)).outputs


def _slo(ttft_s: float, tpot_ms: float) -> "Slo":
    from oomctl.schemas.replay import Slo

    return Slo(ttft_s=ttft_s, tpot_s=tpot_ms / 1000)
