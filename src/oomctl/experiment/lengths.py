"""How long prompts and outputs are: as a model's longest sequence allows, or as a trace or its cohorts have them."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from oomctl.experiment.load.calls import Lengths
from oomctl.schemas.errors import OomctlError

if TYPE_CHECKING:
    from oomctl.schemas.cohorts import Cohorts, Spread

LONGEST = 8192
"""Of a sequence, where nothing says how long requests are: more than most are."""
DRAWN = 512
"""Pairs that are drawn of cohorts, and at most kept of a trace."""
SHORT_SHARE = 0.25
"""Of a trace's requests, the shortest are the short ones."""


def usual_lengths(most_tokens: int) -> dict[str, Lengths]:
    """Lengths for a model that takes so many tokens, where nobody says how long requests are."""
    most = min(most_tokens, LONGEST)
    short = [(max(most // part, 1), max(most // 64, 4)) for part in (64, 32, 16)]
    long_prompt, long_output = (most // 2, max(most // 64, 4)), (max(most // 32, 1), most // 4)
    return {
        "short": Lengths("short", short),
        "mixed": Lengths("mixed", [*short[:2], long_prompt, long_output]),
    }


def lengths_of(source: str, most_tokens: int, seed: int) -> dict[str, Lengths]:
    """Lengths as a trace has them, or as the quantiles of its cohorts allow.

    Args:
        source: A trace, or what `capacity cohorts --json` printed.
        most_tokens: What the model takes; longer ones are cut.
        seed: Of what is drawn.

    Raises:
        OomctlError: If it is neither, or tells no lengths.
    """
    cohorts = _cohorts(source)
    rng = random.Random(seed)
    pairs = list(_drawn(cohorts, rng)) if cohorts is not None else _of_trace(source, rng)
    if not pairs:
        raise OomctlError(f"tells no lengths of prompts and outputs ({source})")
    mixed = Lengths("mixed", pairs).within(most_tokens)
    short = sorted(mixed.pairs, key=sum)[: max(1, round(len(mixed.pairs) * SHORT_SHARE))]
    return {"short": Lengths("short", short), "mixed": mixed}


def _cohorts(source: str) -> "Cohorts | None":
    """What `capacity cohorts --json` printed; None where it is something else, and so a trace."""
    import msgspec

    from oomctl.schemas.cohorts import SCHEMA, Cohorts

    path = Path(source)
    try:
        if not path.is_file() or path.stat().st_size > 64 << 20:
            return None
        found = msgspec.json.decode(path.read_bytes(), type=Cohorts)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if found.schema == SCHEMA else None


def _drawn(cohorts: "Cohorts", rng: random.Random) -> Iterator[tuple[int, int]]:
    """Each cohort as often as it has requests; its prompts and outputs apart, for nothing tells which go together."""
    told = [each for each in cohorts.cohorts if each.prompt_tokens.count and each.output_tokens.count]
    own = told[1:] or told
    weights = [each.requests for each in own]
    for each in rng.choices(own, weights, k=DRAWN) if own else ():
        yield (
            max(1, round(_quantile(each.prompt_tokens, rng.random()))),
            max(1, round(_quantile(each.output_tokens, rng.random()))),
        )


def _quantile(spread: "Spread", share: float) -> float:
    """Between the quantiles that are known, along straight lines; below the median down to half of it."""
    known = ((0.5, spread.p50), (0.9, spread.p90), (0.95, spread.p95), (0.99, spread.p99), (1.0, spread.max))
    points = [(0.0, (spread.p50 or 0.0) / 2), *((at, value) for at, value in known if value is not None)]
    for (left, low), (right, high) in pairwise(points):
        if share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return points[-1][1]


def _of_trace(source: str, rng: random.Random) -> list[tuple[int, int]]:
    from oomctl.cli.boundary import warn
    from oomctl.traces import open_trace

    requests = open_trace([source], warn).requests
    told = requests.select("prompt_tokens", "output_tokens").drop_nulls().rows()
    pairs = [(int(prompt), int(output)) for prompt, output in told if prompt > 0 and output > 0]
    return rng.sample(pairs, DRAWN) if len(pairs) > DRAWN else pairs
