"""The ledger's estimates against print, on models that they were not fitted on; run as a module it fits them anew.

fitted.json names the models of the fit; every other row is a test. `python -m benchmarks.ledger_estimates` prints the
constants of analyzers/ledger/estimates.py as least squares over the fitted models' rows give them.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ledger_rows import NotCovered, Row, engine_of, shape_of
from oomctl.analyzers.ledger import estimates
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.partition import stages
from oomctl.analyzers.ledger.shape import ModelShape, Moe
from oomctl.schemas.ledger import GIB
from tests.shared import SHARED

PRINTED = 0.005
"""GiB to either side of a figure printed with two decimals."""
FITTED: frozenset[str] = frozenset(json.loads(Path(__file__).with_name("fitted.json").read_text()))


@dataclass(frozen=True)
class Outcome:
    """One figure of one row: right, or why not; `width` is that of an interval, as a share of the value."""

    check: str
    row: str
    right: bool
    note: str
    width: float | None = None


def outcomes(row: Row, shape: ModelShape, engine: Engine) -> Iterator[Outcome]:
    """Whether the intervals hold what each rank printed; nothing for a model of the fit."""
    printed = row["printed"]
    if str(row["model"]).casefold() in FITTED:
        return
    own = stages(len(shape.layers), engine.pipeline_parallel, engine)
    for rank, stage in enumerate(own):
        layers = shape.layers[stage.start : stage.stop]
        figures = printed.get("per_rank") or {}
        name = next((name for name in figures if len(own) == 1 or name == f"PP{rank}"), None)
        if name is not None:
            last = rank == len(own) - 1
            yield from _inside(row, "activation", estimates.activation(shape, engine, layers, last), figures[name])
            yield from _inside(row, "non_torch", estimates.non_torch(engine), figures[name])
        if rank == 0:
            captured = estimates.graphs(shape, engine, layers)
            yield from _inside(row, "graph", captured, printed, "graph_gib")
            yield from _inside(row, "graph charge", estimates.graph_charge(captured), printed, "graph_estimated_gib")
            yield from _inside(row, "context", estimates.context(engine), printed, "init_cuda_gib")


def _inside(row: Row, what: str, guess: estimates.Estimate, printed: Row, key: str | None = None) -> Iterator[Outcome]:
    seen = printed.get(key or what)
    if seen is None or guess.bytes is None or guess.low_bytes is None or guess.high_bytes is None:
        return
    low, high = guess.low_bytes / GIB, guess.high_bytes / GIB
    yield Outcome(
        f"{what} interval",
        str(row["id"]),
        low - PRINTED <= seen <= high + PRINTED,
        f"{low:.2f} to {high:.2f} GiB, printed {seen}",
        (high - low) / (guess.bytes / GIB),
    )


def _solve(rows: list[list[float]], values: list[float]) -> list[float]:
    """Least squares by the normal equations, for a handful of unknowns."""
    size = len(rows[0])
    table = [[sum(row[i] * row[j] for row in rows) for j in range(size)] for i in range(size)]
    right = [sum(row[i] * value for row, value in zip(rows, values, strict=True)) for i in range(size)]
    for i in range(size):
        for k in range(size):
            if k != i:
                factor = table[k][i] / table[i][i]
                table[k] = [a - factor * b for a, b in zip(table[k], table[i], strict=True)]
                right[k] -= factor * right[i]
    return [right[i] / table[i][i] for i in range(size)]


def fit(data: Path) -> tuple[list[float], list[float]]:
    """(LOGIT_COPIES, HIDDEN_COPIES, FIXED_GIB), (GRAPH_GIB, GRAPH_LAYER_GIB, GRAPH_WIDTH_GIB), over distinct layouts.

    The first over single ranks of dense text models; the second over dense models, by relative error.
    """
    peaks: dict[tuple[object, ...], tuple[list[float], float]] = {}
    pools: dict[tuple[object, ...], tuple[list[float], float]] = {}
    for line in (data / "ledger" / "truth.jsonl").read_text().splitlines():
        row = json.loads(line)
        if str(row["model"]).casefold() not in FITTED or "per_rank" not in row["printed"]:
            continue
        try:
            shape = shape_of(row, data / "ledger" / "configs", data / "vllm_logs")
        except NotCovered:
            continue
        engine = engine_of(row)
        if any(isinstance(layer.feed_forward, Moe) for layer in shape.layers):
            continue
        element = engine.dtype_bytes or shape.element_bytes
        layout = (row["model"], engine.tensor_parallel, engine.pipeline_parallel, element)
        logits = engine.max_requests * shape.vocabulary / GIB
        if engine.pipeline_parallel == 1 and shape.vision is None:
            seen = next(iter(row["printed"]["per_rank"].values()))["activation"]
            states = engine.batched_tokens * shape.hidden * element / GIB
            peaks[layout] = [logits, states, 1.0], seen - element * logits
        layers = len(stages(len(shape.layers), engine.pipeline_parallel, engine)[0])
        seen = row["printed"]["graph_gib"]
        width = layers * shape.hidden / engine.tensor_parallel / 1e5
        pools[layout] = [1 / seen, layers / seen, width / seen], 1.0
    first, second = ([list(item) for item in zip(*found.values(), strict=True)] for found in (peaks, pools))
    return _solve(first[0], first[1]), _solve(second[0], second[1])


if __name__ == "__main__":
    for constants in fit(SHARED / "data"):
        sys.stdout.write(" ".join(f"{value:.5f}" for value in constants) + "\n")
