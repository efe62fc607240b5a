"""`oomctl capacity`: from a trace of requests to what a pool of KV blocks holds. Each command has a file of its own."""

import typer

from oomctl.cli import capacity_cohorts, capacity_experiment, capacity_pauses, capacity_pool, capacity_replay

capacity = typer.Typer(
    name="capacity",
    help="Say what a trace of requests needs of a KV pool.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
capacity.command("cohorts")(capacity_cohorts.cohorts)
capacity.command("pool")(capacity_pool.pool)
capacity.command("replay")(capacity_replay.replay)
capacity.command("limit")(capacity_replay.limit)
capacity.command("pauses")(capacity_pauses.pauses)
capacity.add_typer(capacity_experiment.experiment)
