"""The stories, engine-neutral: what triage should say of each, and its plot."""

from collections.abc import Callable

from tests.scenarios.families import plots
from tests.scenarios.families.teller import Teller
from tests.scenarios.labels import NOTHING, Label, blocks, device, label

Plot = Callable[[Teller], None]

STORIES: dict[str, tuple[Label, Plot]] = {
    "load_weights": (device("load_time"), plots.weights),
    "load_neighbour": (device("load_time", "foreign_process"), plots.neighbour),
    "load_staging": (device("load_time"), plots.staging),
    "warm_up_pool": (device("warm_up"), plots.pool),
    "warm_up_run": (device("warm_up"), plots.warm),
    "warm_up_survived": (device("warm_up", survived=True), plots.warm_survived),
    "prefill_long_prompt": (device("prefill_spike", survived=None), plots.long_prompt),
    "prefill_looks_fragmented": (device("prefill_spike", survived=None), plots.looks_fragmented),
    "decode_exhausted": (blocks("decode_growth", survived=None), plots.exhausted),
    "decode_preempting": (blocks("decode_growth", survived=True), plots.preempting),
    "decode_cache_growth": (device("decode_growth", survived=None), plots.cache_growth),
    "fragmentation_same_shape": (device("fragmentation", survived=None), plots.same_shape),
    "recovery_restart": (device("recovery"), plots.restart),
    "recovery_swap": (device("recovery", survived=None), plots.swap),
    "recovery_reload": (device("recovery", survived=None), plots.reload),
    "recovery_wake": (device("recovery", survived=None), plots.wake),
    "recovery_transfer": (device("recovery", survived=None), plots.transfer),
    "gate_start": (label("capacity_gate", None, "device"), plots.refused),
    "gate_request": (label("capacity_gate", None, "kv_blocks", survived=None), plots.refused_request),
    "not_oom_illegal_access": (label("not_oom", None, None, survived=None), plots.illegal),
    "healthy": (NOTHING, plots.healthy),
}
