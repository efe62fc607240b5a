"""Background rows as columns: what a log reader makes of the lines between the deciding ones, any number of them."""

from typing import Any

import polars as pl

from tests.scenarios.entries import Background
from tests.scenarios.writer import Writer

CYCLE_US = 10_000_000
"""The engine reports every ten seconds."""

SERVING = ("throughput", "kv_pool", "log", "step", "log", "request", "request", "log")
"""Kinds of the rows of one cycle. The first three come of one line, the periodic report."""
STARTING = ("log",) * 8
LINES_PER_CYCLE = 6
_PRIME, _STEP = 999_983, 7_919


def value(span: tuple[int, int], cycle: int, salt: int) -> int:
    """A number within a span, both ends included, that looks arbitrary and depends on its arguments alone."""
    return span[0] + (cycle * _STEP + salt * 104_729) % _PRIME % (span[1] - span[0] + 1)


def _value(span: tuple[int, int], salt: int) -> pl.Expr:
    """As `value`, for a column `cycle`."""
    return span[0] + (pl.col("cycle") * _STEP + salt * 104_729) % _PRIME % (span[1] - span[0] + 1)


def slots(background: Background) -> tuple[str, ...]:
    """Kinds of the rows of one cycle."""
    return SERVING if background.serving else STARTING


def cycles(rows: int) -> int:
    """How many cycles a number of rows takes, the last one possibly cut short."""
    return -(-rows // len(SERVING))


def filler(writer: Writer, slot: int, rows: int, seq: int, line: int, fill_us: int) -> pl.DataFrame:
    """The rows of one slot of all cycles.

    Args:
        writer: Holds the background and the figures.
        slot: Which row of the cycle.
        rows: Filler rows of all slots together.
        seq: Sequence number of the first filler row.
        line: Line number of the first filler line.
        fill_us: When the filler starts, in microseconds since the scenario's start.

    Returns:
        Columns seq, line, ts, rank, rank_name, and the kind's own fields under `KIND.FIELD`.
    """
    background, figures = writer.script.background, writer.figures
    kind = slots(background)[slot]
    count = max(0, -(-(rows - slot) // len(SERVING)))
    offset = max(0, slot - 2) if background.serving else slot * (LINES_PER_CYCLE - 1) // (len(STARTING) - 1)
    by_rank = not background.serving or slot == 7
    rank = pl.col("cycle") % figures.ranks if by_rank else pl.lit(None, pl.Int64)
    names = [writer.rank_name(each) or "" for each in range(figures.ranks)]
    name = (
        rank.replace_strict(list(range(figures.ranks)), names, return_dtype=pl.String)
        if by_rank
        else pl.lit(None, pl.String)
    )
    ts = (figures.start_us + fill_us) // 1_000_000 * 1_000_000 + pl.col("cycle") * CYCLE_US + offset * 1_000_000
    fields: dict[str, Any] = _FIELDS[kind](background, slot, writer.engine)
    return (
        pl.LazyFrame({"cycle": pl.int_range(count, dtype=pl.Int64, eager=True)})
        .select(
            (seq + pl.col("cycle") * len(SERVING) + slot).alias("seq"),
            (line + pl.col("cycle") * LINES_PER_CYCLE + offset).alias("line"),
            ts.alias("ts"),
            rank.alias("rank"),
            name.alias("rank_name"),
            *(expression.alias(f"{kind}.{field}") for field, expression in fields.items()),
        )
        .collect()
    )


def _throughput(background: Background, slot: int, engine: str) -> dict[str, pl.Expr]:
    running = _value(background.running, 2)
    return {
        "prompt_tokens_per_s": _value((40, 400), 4).cast(pl.Float64),
        "generation_tokens_per_s": (running * 317).cast(pl.Float64) / 10,
        "running_requests": running,
        "waiting_requests": _value(background.waiting, 3),
    }


def _kv_pool(background: Background, slot: int, engine: str) -> dict[str, pl.Expr]:
    return {
        "tier": pl.lit("device"),
        "usage_ratio": _value(background.usage_tenths, 1).cast(pl.Float64) / 1000,
        "usage_resolution_ratio": pl.lit(0.0005),
    }


def _step(background: Background, slot: int, engine: str) -> dict[str, pl.Expr]:
    return {
        "step_id": pl.col("cycle") + 1,
        "mode": pl.lit("prefill"),
        "prefill_tokens": _value(background.prefill_tokens, 6),
        "running_requests": _value(background.running, 2),
        "waiting_requests": _value(background.waiting, 3),
    }


def _request(background: Background, slot: int, engine: str) -> dict[str, pl.Expr]:
    return {
        "request_id": pl.concat_str(pl.lit("req-"), pl.col("cycle").cast(pl.String)),
        "event": pl.lit("arrived" if slot == 5 else "finished"),
        "prompt_tokens": _value(background.prefill_tokens, 6),
    }


def _log(background: Background, slot: int, engine: str) -> dict[str, pl.Expr]:
    if slot == 2 and background.serving:
        tenths = _value(background.usage_tenths, 1)
        text = pl.format(
            "Engine 000: Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {}.{}%",
            _value(background.running, 2),
            _value(background.waiting, 3),
            tenths // 10,
            tenths % 10,
        )
    else:
        text = pl.format("poll {} of the message queue", pl.col("cycle"))
    level = "INFO" if background.serving else "DEBUG"
    return {"level": pl.lit(level), "logger": pl.lit("background"), "text": text}


_FIELDS = {"throughput": _throughput, "kv_pool": _kv_pool, "step": _step, "request": _request, "log": _log}
