"""`--limits`: what `oomctl capacity experiment` measured, in place of options that are not given."""

from pathlib import Path
from typing import Annotated, Any

import typer

ARGUMENTS = ("max_num_seqs", "max_num_batched_tokens")
"""Of the engine, which options bear their names."""


def fill(context: typer.Context, path: Path | None) -> Path | None:
    """Let an experiment's limits be the defaults of this call; what is given counts more.

    Raises:
        OomctlError: If it is no experiment.
    """
    if path is None:
        return None
    from oomctl.experiment.folder import read_experiment

    found = read_experiment(path)
    told: dict[str, Any] = {
        "share": found.share,
        "slo_ttft": found.slo.ttft_s,
        "slo_tpot_ms": found.slo.tpot_s * 1000,
        **{name: int(text) for name in ARGUMENTS if (text := found.arguments.get(name, "")).isdecimal()},
    }
    if found.limits is not None:
        limits = found.limits
        told |= {
            "blocks": limits.total_blocks,
            "block_size": limits.block_tokens,
            "safety_blocks": limits.safety_blocks,
            "queue_limit": limits.queue_limit,
            "prefill_rate": limits.prefill_tokens_per_s,
            "tpot_ms": None if limits.tpot_s is None else limits.tpot_s * 1000,
        }
    caching = {"True": True, "False": False}.get(found.arguments.get("enable_prefix_caching", ""))
    told |= {"prefix_caching": caching}
    known = {name: value for name, value in told.items() if value is not None}
    context.default_map = {**(context.default_map or {}), **known}
    return path


LimitsOption = Annotated[
    Path | None,
    typer.Option(
        "--limits",
        metavar="DIR|FILE",
        is_eager=True,
        callback=fill,
        help="What `capacity experiment` measured: pool, speeds, queue and SLO, where they are not given here.",
    ),
]
