"""The ten steps, in their order."""

from oomctl.experiment.steps.base import Outcome, Step
from oomctl.experiment.steps.endurance import restart, steady
from oomctl.experiment.steps.memory import pool, snapshots, warm_up
from oomctl.experiment.steps.rates import mixed, operating_point, short
from oomctl.experiment.steps.reuse import cancels_and_pauses, prefixes

STEPS = (
    Step(1, "memory before and after loading", snapshots, "launch"),
    Step(2, "all shapes warmed", warm_up, "launch"),
    Step(3, "KV pool against the ledger", pool),
    Step(4, "ramp of short requests", short),
    Step(5, "long prompts and outputs mixed in", mixed),
    Step(6, "prefix hits and misses apart", prefixes),
    Step(7, "cancellations and tool pauses", cancels_and_pauses),
    Step(8, "steady state", steady),
    Step(9, "restart and rolling update", restart, "launch"),
    Step(10, "operating point", operating_point),
)

__all__ = ["STEPS", "Outcome", "Step"]
