"""What a session's turns have to do with each other: growth, compaction, broken prefixes, pauses, parts of prompts."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from oomctl.analyzers.capacity.prefix import NONE, hit_tokens, shared_with_previous
from oomctl.analyzers.capacity.quantiles import quantile
from oomctl.analyzers.capacity.spread import spread
from oomctl.schemas.cohorts import Depth, Long, Parts, Pauses, Revision, Turns
from oomctl.schemas.trace import Trace

Index = npt.NDArray[np.int64]
DEPTHS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LONG_S = (60, 300)
KINDS = ("tool", "user", "agent")


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """How each turn goes on from the one before it in its session, or in its subagent's part of it.

    Attributes:
        previous: int64, shape (requests,): row of the turn before, or NONE.
        reused_tokens: int64, same shape: of the prompt, in common with that turn's; NONE where there is none, or where the
            trace has no blocks.
    """

    previous: Index
    reused_tokens: Index


def links(trace: Trace) -> Links:
    """The links of all turns of a trace."""
    rows = trace.requests.select("session", "agent").with_row_index("row")
    before = rows.select(
        pl.when(pl.col("session").is_not_null()).then(pl.col("row").cast(pl.Int64).shift(1).over("session", "agent"))
    )
    previous = before.to_series().fill_null(NONE).to_numpy()
    prefixes = trace.prefixes
    if prefixes is None:
        return Links(previous, np.full(len(trace), NONE, dtype=np.int64))
    blocks = shared_with_previous(prefixes, previous)
    prompts = trace.requests["prompt_tokens"].to_numpy()
    return Links(previous, np.where(blocks == NONE, NONE, hit_tokens(blocks, prompts, prefixes.block_tokens)))


def turns(trace: Trace, linked: Links, rows: Index) -> Turns | None:
    """How prompts grow in the sessions of some requests; None where no session is told."""
    requests = trace.requests[rows]
    if requests["session"].null_count() == len(rows):
        return None
    chains = requests.group_by("session", "agent").len()
    prompts = trace.requests["prompt_tokens"].to_numpy()
    own = rows[linked.previous[rows] != NONE]
    change = prompts[own] - prompts[linked.previous[own]]
    shorter = own[change < 0]
    told = shorter[linked.reused_tokens[shorter] != NONE]
    depths = (
        requests.filter(pl.col("turn").is_in(DEPTHS))
        .group_by("turn")
        .agg(pl.len(), pl.col("prompt_tokens").quantile(0.5, "linear"))
        .sort("turn")
    )
    return Turns(
        sessions=requests["session"].n_unique(),
        turns_p50=float(quantile(chains["len"].to_numpy(), 0.5) or 0),
        growth_tokens=spread(change[change > 0]),
        by_turn=[Depth(turn=turn, requests=count, prompt_tokens_p50=p50) for turn, count, p50 in depths.rows()],
        compactions=len(shorter),
        before_compaction_tokens_p50=quantile(prompts[linked.previous[shorter]], 0.5),
        after_compaction_tokens_p50=quantile(prompts[shorter], 0.5),
        reused_after_compaction_ratio=_ratio(linked.reused_tokens[told], prompts[told]),
    )


def pauses(trace: Trace, linked: Links, rows: Index) -> list[Pauses]:
    """What sessions of some requests wait for, by kind."""
    requests = trace.requests
    prompts, outputs = requests["prompt_tokens"].to_numpy(), requests["output_tokens"].fill_null(0).to_numpy()
    kinds, seconds = requests["pause"].to_numpy(), requests["pause_s"].fill_null(np.nan).to_numpy()
    found = []
    for kind in KINDS:
        own = rows[(kinds[rows] == kind) & ~np.isnan(seconds[rows])]
        if not len(own):
            continue
        waited = seconds[own]
        before = linked.previous[own]
        held = np.where(before == NONE, 0, prompts[before] + outputs[before])
        total = float((held * waited).sum())
        told = own[linked.reused_tokens[own] != NONE]
        found.append(
            Pauses(
                kind=kind,
                seconds=spread(waited),
                held_tokens=spread(held),
                token_seconds=total,
                longer=[
                    Long(
                        seconds=limit,
                        share_of_pauses=float((waited > limit).mean()),
                        share_of_token_seconds=float((held * waited)[waited > limit].sum()) / total if total else None,
                    )
                    for limit in LONG_S
                ],
                reusable_ratio=_ratio(linked.reused_tokens[told], prompts[told]),
            )
        )
    return found


def parts(trace: Trace, linked: Links, rows: Index) -> Parts:
    """Of which parts the prompts of some requests consist, as far as the trace tells.

    The history of a turn is what it has in common with the turn before, without the system prompt and the tools in front.
    """
    requests = trace.requests[rows]
    prompts = requests["prompt_tokens"].to_numpy()
    system, tools = (_part(requests, column, prompts) for column in ("system_tokens", "tool_schema_tokens"))
    history = _part(requests, "history_tokens", prompts)
    if history is None and trace.prefixes is not None and requests["session"].null_count() == 0:
        front = sum((part for part in (system, tools) if part is not None), np.zeros(len(rows), dtype=np.int64))
        history = np.maximum(linked.reused_tokens[rows] - front, 0)
    retrieved = _part(requests, "retrieved_tokens", prompts)
    known = [None if part is None else int(part.sum()) for part in (system, tools, history, retrieved)]
    return Parts(
        system_tokens=known[0],
        tool_schema_tokens=known[1],
        history_tokens=known[2],
        retrieved_tokens=known[3],
        other_tokens=int(prompts.sum()) - sum(part for part in known if part is not None),
    )


def revision(trace: Trace, linked: Links, rows: Index) -> Revision | None:
    """What a revision of what stands in front of the conversation loses; None where prefixes or sessions are not told."""
    own = rows[linked.reused_tokens[rows] != NONE]
    if not len(own):
        return None
    prompts = trace.requests["prompt_tokens"].to_numpy()
    reused, before = linked.reused_tokens[own], prompts[linked.previous[own]]
    broken = (prompts[own] >= before) & (reused < before // 2)
    return Revision(
        reused_tokens=spread(reused),
        sessions=trace.requests[own]["session"].n_unique(),
        broken_turns=int(broken.sum()),
        lost_tokens=int((before - reused)[broken].sum()),
    )


def _part(requests: pl.DataFrame, column: str, prompts: Index) -> Index | None:
    """Tokens of a part of each prompt, at most the prompt's; None where it is not told of each."""
    values = requests[column]
    return None if values.null_count() else np.minimum(values.to_numpy(), prompts)


def _ratio(part: Index, whole: Index) -> float | None:
    return float(part.sum() / whole.sum()) if len(whole) and whole.sum() else None
