"""The pauses of a trace: what keeping, moving and dropping would waste, and the rule beside the oracle."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oomctl.analyzers.capacity.sessions import links
from oomctl.analyzers.capacity.waits.play import ByOracle, ByRule, Played, play
from oomctl.analyzers.capacity.waits.rule import Rule
from oomctl.analyzers.capacity.waits.waste import Costs, Pauses, totals
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.pauses import Outcome, PauseReport, Threshold
from oomctl.schemas.trace import Trace

CONTEXTS = (4_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000)
FOLDS = 2


def pauses_of(trace: Trace, session_gap_s: float, *, subagents: bool = False) -> Pauses:
    """The waits for tools, with what is held meanwhile.

    Args:
        trace: With sessions.
        session_gap_s: Where each session has its own clock: one begins every so many seconds.
        subagents: Whether the waits of subagents, which hold contexts of their own, count too.

    Raises:
        OomctlError: If it tells of none.
    """
    table = trace.requests
    previous = links(replace(trace, prefixes=None)).previous
    seconds = table["pause_s"].fill_null(np.nan).to_numpy()
    wanted = (table["pause"].fill_null("") == "tool") & (table["agent"].is_null() | subagents)
    rows = np.flatnonzero(wanted.to_numpy() & ~np.isnan(seconds) & (previous >= 0))
    if not len(rows):
        raise OomctlError(f"no wait for a tool ({trace.name})", "sessions tell of them, or spans with calls of tools")
    names = table["session"].gather(rows.tolist()).to_list()
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    session = np.array([numbers[name] for name in names], dtype=np.int64)
    held = table["prompt_tokens"].to_numpy() + table["output_tokens"].fill_null(0).to_numpy()
    begin_s = table["arrival_s"].to_numpy()[rows] - seconds[rows]
    if trace.clock == "session":
        begin_s = begin_s + session * session_gap_s
    order = np.argsort(begin_s, kind="stable")
    found = Pauses(begin_s, seconds[rows], held[previous[rows]].astype(np.float64), session)
    return found.take(order)


def report(trace: Trace, costs: Costs, session_gap_s: float, *, subagents: bool = False) -> PauseReport:
    """Everything about the pauses of a trace.

    The rule knows the pauses of one half of the sessions and decides in the other, and the other way round; so nothing
    that it decides is among what it has learned from.
    """
    pauses = pauses_of(trace, session_gap_s, subagents=subagents)
    known = totals(pauses, costs)
    fold = pauses.session % FOLDS
    learned = [Rule(pauses.seconds[fold != each]) for each in range(FOLDS)]
    rules = {session: learned[session % FOLDS] for session in set(pauses.session.tolist())}
    kept = play(pauses, ByRule(pauses, rules, costs, with_link=False), costs)
    moved = play(pauses, ByRule(pauses, rules, costs, with_link=True), costs)
    oracle = play(pauses, ByOracle(pauses, costs), costs)
    return PauseReport(
        trace=trace.name,
        pauses=len(pauses),
        sessions=len(rules),
        waste=known,
        rule_without_link=_outcome(kept, known.oracle_without_link),
        rule=_outcome(moved, oracle.waste),
        oracle_on_the_link=_outcome(oracle, oracle.waste),
        thresholds=_thresholds(Rule(pauses.seconds), costs, CONTEXTS),
    )


def _outcome(played: Played, oracle: float) -> Outcome:
    return Outcome(
        waste=played.waste,
        times_oracle=played.waste / oracle if oracle else None,
        preserved=played.preserved,
        recomputed=played.recomputed,
        offloaded=played.offloaded,
        longest_link_wait_s=played.link_wait_s,
    )


def _thresholds(rule: Rule, costs: Costs, contexts: Sequence[int]) -> list[Threshold]:
    tokens = np.array(contexts, dtype=np.float64)
    found = []
    for context, again_s, moved_s in zip(contexts, costs.recompute_s(tokens), costs.transfer_s(tokens), strict=True):
        alone, linked = rule.choose(float(again_s), None), rule.choose(float(again_s), float(moved_s))
        found.append(
            Threshold(
                context_tokens=context,
                keep_s=linked.keep_s,
                then=linked.then,
                keep_without_link_s=alone.keep_s,
            )
        )
    return found
