"""`make accuracy-ledger`: how near the ledger's exact arithmetic comes to what engines printed.

Over truth.jsonl of the shared data. Weights: within 0.01 GiB for dense BF16, FP16, FP8 and INT8 models, within 1% for the
rest. KV blocks: inside the interval that the printed GiB implies. Tokens and concurrency: exact, given the blocks or, where
none are printed, given a number of blocks that the printed size allows. Rows that miss are listed with their reason.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.ledger_estimates import PRINTED, Outcome, outcomes
from benchmarks.ledger_rows import NotCovered, Row, engine_of, shape_of, weight_facts_missing
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.kv import blocks_of, layout, max_concurrency, printed_tokens
from oomctl.analyzers.ledger.partition import stages
from oomctl.analyzers.ledger.sglang import kv_pool_bytes, state_pool_bytes
from oomctl.analyzers.ledger.shape import ModelShape, Moe
from oomctl.analyzers.ledger.weights import rank_tensors, steady_bytes
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.ledger import GIB, KvLayout
from tests.shared import SHARED

TARGETS = {
    "weights, dense": 0.95,
    "weights, rest": 0.90,
    "kv blocks": 0.95,
    "tokens and concurrency": 0.95,
}
HELD = 0.90
"""Least share of the intervals that must hold what was printed, over all figures and models that were not fitted."""
WIDEST = 0.25
"""Most that the median width of all intervals may be, as a share of the value."""


def checks(row: Row, data: Path) -> Iterator[Outcome]:
    """Every figure of a row that the ledger predicts."""
    name, printed = str(row["id"]), row["printed"]
    engine = engine_of(row)
    shape: ModelShape | None = None
    reason = ""
    try:
        shape = shape_of(row, data / "ledger" / "configs", data / "vllm_logs")
    except NotCovered as error:
        reason = str(error)
    if "weights_gib" in printed:
        yield _weights(row, shape, engine, reason, data)
    if shape is None:
        if printed.get("kv_gib") or printed.get("kv_tokens"):
            yield Outcome("kv blocks", name, False, reason)
        return
    try:
        yield from _sglang(row, shape, engine) if engine.name == "sglang" else _vllm(row, shape, engine)
    except OomctlError as error:
        yield Outcome("kv blocks", name, False, error.what)


def _weights(row: Row, shape: ModelShape | None, engine: Engine, reason: str, data: Path) -> Outcome:
    name, printed = str(row["id"]), row["printed"]["weights_gib"]
    check = "weights, dense" if _is_dense(row, shape) else "weights, rest"
    missing = weight_facts_missing(row, data / "ledger" / "configs")
    if missing:
        return Outcome("weights, facts missing", name, False, f"the row does not tell {missing}")
    if shape is None:
        return Outcome(check, name, False, reason)
    ranks = range(engine.pipeline_parallel)
    try:
        found = [steady_bytes(rank_tensors(shape, engine, rank)) / GIB for rank in ranks]
    except OomctlError as error:
        return Outcome(check, name, False, error.what)
    nearest = min(found, key=lambda value: abs(value - printed))
    allowed = 0.01 if check == "weights, dense" else 0.01 * printed
    bounds = f"; {', '.join(shape.lower_bounds)}" if shape.lower_bounds else ""
    note = f"{nearest:.3f} GiB, printed {printed}, {nearest - printed:+.3f} ({row.get('quant')}{bounds})"
    return Outcome(check, name, abs(nearest - printed) <= allowed, note)


def _is_dense(row: Row, shape: ModelShape | None) -> bool:
    experts = "E" in row["arch"] or (shape is not None and any(isinstance(one.feed_forward, Moe) for one in shape.layers))
    packings = (
        {shape.quantization.default.packing, *(scheme.packing for _, scheme in shape.quantization.rules)}
        if shape
        else set()
    )
    return not experts and not packings & {"int4_group", "nvfp4", "mxfp4"} and "4" not in str(row.get("quant") or "")


def _vllm(row: Row, shape: ModelShape, engine: Engine) -> Iterator[Outcome]:
    name, printed = str(row["id"]), row["printed"]
    length = row.get("max_model_len") or shape.max_positions
    blocks, size = printed.get("gpu_blocks"), printed.get("kv_gib")
    tokens, concurrency = printed.get("kv_tokens"), printed.get("max_concurrency")
    yield from outcomes(row, shape, engine)
    layouts = [
        layout(shape.layers[stage.start : stage.stop] + drafts, shape, engine, length)
        for stage, drafts in _staged(shape, engine)
    ]
    allowed = _allowed_blocks(row, layouts, size)
    if blocks and allowed:
        low, high = allowed
        yield Outcome("kv blocks", name, low <= blocks <= high, f"{low} to {high} blocks, printed {blocks}")
    elif tokens and allowed:
        # No blocks are printed: some number of them that the size allows must give the printed figures.
        low, high = allowed
        fits = any(_figures_fit(count, layouts[0], engine, length, tokens, row) for count in range(low, high + 1))
        bounds = (printed_tokens(low, layouts[0], engine, length), printed_tokens(high, layouts[0], engine, length))
        yield Outcome("kv blocks", name, fits, f"{bounds[0]} to {bounds[1]} tokens, printed {tokens}")
    elif tokens and concurrency:
        most = 1 + int((concurrency + 0.01) * layouts[0].blocks_per_request)
        fits = any(_figures_fit(count, layouts[0], engine, length, tokens, row) for count in range(1, most + 1))
        yield Outcome("tokens and concurrency", name, fits, f"printed {tokens} tokens and {concurrency}")
    if blocks and tokens:
        got = printed_tokens(blocks, layouts[0], engine, length)
        times = max_concurrency(blocks, layouts[0], engine, length)
        right = got == tokens and (concurrency is None or f"{times:.2f}" == f"{concurrency:.2f}")
        yield Outcome("tokens and concurrency", name, right, f"{got} and {times:.2f}, printed {tokens} and {concurrency}")


def _staged(shape: ModelShape, engine: Engine) -> list[tuple[range, tuple]]:  # type: ignore[type-arg]
    own = stages(len(shape.layers), engine.pipeline_parallel, engine)
    drafts = engine.own_drafts(shape.draft_layers)
    return [(stage, drafts if index == len(own) - 1 else ()) for index, stage in enumerate(own)]


def _figures_fit(blocks: int, own: KvLayout, engine: Engine, length: int, tokens: int, row: Row) -> bool:
    concurrency = row["printed"].get("max_concurrency")
    times = max_concurrency(blocks, own, engine, length)
    return printed_tokens(blocks, own, engine, length) == tokens and (
        concurrency is None or f"{times:.2f}" == f"{concurrency:.2f}"
    )


def _allowed_blocks(row: Row, layouts: list[KvLayout], size: float | None) -> tuple[int, int] | None:
    """Fewest and most blocks that the printed sizes allow: the least over ranks where each rank's is known."""
    printed = row["printed"]
    per_rank, total, util = printed.get("per_rank") or {}, printed.get("init_total_gib"), row.get("util")
    if len(layouts) > 1 and len(per_rank) == len(layouts) and total and util:
        spans = []
        for name, own in per_rank.items():
            rank = int("".join(filter(str.isdigit, name)))
            free, fuzzy = util * total - own["total_non_kv"], PRINTED + util * PRINTED
            spans.append(_blocks(free - fuzzy, free + fuzzy, layouts[rank]))
        return min(low for low, _ in spans), min(high for _, high in spans)
    if size is None or size <= 0:
        return None
    return _blocks(size - PRINTED, size + PRINTED, layouts[0])


def _blocks(low_gib: float, high_gib: float, own: KvLayout) -> tuple[int, int]:
    return blocks_of(int(low_gib * GIB), own), blocks_of(int(high_gib * GIB), own)


def _sglang(row: Row, shape: ModelShape, engine: Engine) -> Iterator[Outcome]:
    name, printed = str(row["id"]), row["printed"]
    tokens = printed.get("kv_tokens")
    found = [printed[key] for key in ("kv_gib", "k_gib", "v_gib") if printed.get(key) is not None]
    if tokens and found:
        got = kv_pool_bytes(shape, engine, tokens) / GIB
        right = abs(got - sum(found)) <= PRINTED * len(found) + 1e-9
        yield Outcome("kv blocks", name, right, f"{got:.3f} GiB, printed {sum(found):.2f}")
    slots = printed.get("mamba_slots")
    if slots:
        got_states = state_pool_bytes(shape, engine, slots)
        pairs = list(zip(got_states, (printed["conv_gib"], printed["ssm_gib"]), strict=True))
        if "k_heads" not in row["arch"]:
            pairs = pairs[1:]  # without the key heads nobody knows the convolution's width
        right = all(abs(mine / GIB - theirs) <= PRINTED for mine, theirs in pairs)
        yield Outcome(
            "kv blocks", name, right, ", ".join(f"{mine / GIB:.3f} GiB, printed {theirs}" for mine, theirs in pairs)
        )


def main() -> int:
    """Print a line per check and a list of misses; 1 if a share is below its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data", help="the folder that holds ledger/truth.jsonl")
    parser.add_argument("--all", action="store_true", help="list what is right too")
    args = parser.parse_args()
    truth = args.data / "ledger" / "truth.jsonl"
    if not truth.is_file():
        print(f"no {truth}: set OOMCTL_SHARED to the shared data", file=sys.stderr)
        return 4
    rows = [json.loads(line) for line in truth.read_text().splitlines() if line.strip()]
    found = [outcome for row in rows for outcome in checks(row, args.data)]
    failed = False
    print(f"{'figure':<26}{'rows':>6}{'right':>7}{'share':>8}{'target':>8}")
    for check, target in TARGETS.items():
        own = [outcome for outcome in found if outcome.check == check]
        right = sum(outcome.right for outcome in own)
        share = right / len(own) if own else 0.0
        failed = failed or share < target
        print(f"{check:<26}{len(own):>6}{right:>7}{share:>8.3f}{target:>8.2f}")
    widths = [outcome.width for outcome in found if outcome.width is not None]
    held = sum(outcome.right for outcome in found if outcome.width is not None)
    if widths:
        failed = failed or median(widths) > WIDEST or held < HELD * len(widths)
        for check in sorted({outcome.check for outcome in found if outcome.width is not None}):
            own = [outcome for outcome in found if outcome.check == check]
            print(f"{check:<26}{len(own):>6}{sum(outcome.right for outcome in own):>7}")
        print(f"intervals of models that were not fitted: {held} of {len(widths)} hold, median width {median(widths):.3f}")
    for outcome in found:
        if args.all or not outcome.right:
            print(f"{'right' if outcome.right else 'MISS '} {outcome.check:<24}{outcome.row}: {outcome.note}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
