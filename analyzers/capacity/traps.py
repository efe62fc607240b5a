"""Traps that a trace shows by itself, whatever its form: each would make a figure wrong that looks right."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from oomctl.schemas.trace import Finding, Trace

SHARE_OF_EQUAL_TIMES = 0.3
"""Of gaps between arrivals that are 0, beyond which times are taken to be quantised: arrivals at any instant have none."""


def with_traps(trace: Trace) -> Trace:
    """The same trace, with the traps that its figures show among its findings."""
    return replace(trace, findings=(*trace.findings, *_traps(trace)))


def arrival_resolution_s(trace: Trace) -> float | None:
    """The step in which arrivals are told, in seconds; None where they are told finely, or have no common clock."""
    if trace.clock != "trace" or len(trace) < 3:
        return None
    gaps = np.diff(trace.requests["arrival_s"].to_numpy())
    steps = gaps[gaps > 0]
    if not len(steps) or (gaps == 0).mean() < SHARE_OF_EQUAL_TIMES:
        return None
    return float(np.quantile(steps, 0.05))


def shrinks(trace: Trace) -> tuple[int, int]:
    """How many turns have a shorter prompt than the turn just before them, and of how many turns that have one."""
    turns = trace.requests.filter(pl.col("session").is_not_null(), pl.col("agent").is_null()).select(
        "pause", change=pl.col("prompt_tokens").diff().over("session")
    )
    just_before = turns.filter(pl.col("change").is_not_null(), pl.col("pause").ne_missing("agent"))
    return int((just_before["change"] < 0).sum()), just_before.height


def _traps(trace: Trace) -> Iterator[Finding]:
    step_s = arrival_resolution_s(trace)
    if step_s is not None:
        times = trace.requests["arrival_s"].n_unique()
        text = (
            f"Arrivals are told at {times:,} instants only, {step_s:.3g} s apart: figures of arrival over times shorter "
            "than some of these steps are left out."
        )
        yield Finding("quantised_times", times, text)
    shorter, pairs = shrinks(trace)
    if shorter:
        text = (
            f"{shorter:,} of {pairs:,} turns have a shorter prompt than the turn before, compacted: little of it is reused."
        )
        yield Finding("shrinking_prompts", shorter, text)
    prefixes = trace.prefixes
    if prefixes is not None:
        of = "a partly filled one has an id too" if prefixes.rounding == "ceil" else "only whole ones have an id"
        text = (
            f"Blocks have {prefixes.block_tokens} tokens; {of}. Engines reuse whole blocks, and compute one token at least."
        )
        yield Finding(f"{prefixes.rounding}_blocks", len(prefixes.ids), text)
