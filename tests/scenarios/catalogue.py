"""The labelled incidents: what each is, what triage should say of it, and what it is easily mistaken for."""

# ruff: noqa: E501  one row of a table is one line

from collections.abc import Callable
from dataclasses import dataclass

from tests.scenarios import plots_recovery as recovery
from tests.scenarios import plots_serving as serving
from tests.scenarios import plots_start as start
from tests.scenarios.labels import NOTHING, Label, blocks, device, label
from tests.scenarios.writer import Writer

Plot = Callable[[Writer], None]


@dataclass(frozen=True)
class Scenario:
    """A labelled incident.

    Attributes:
        name: Its name; the stream of its rows is `scenario:NAME`.
        label: The right verdict.
        look_alike: The scenario that it is easily mistaken for.
        description: What happens, and which facts decide.
        engines: Whose logs can show it, the usual one first.
        plot: Writes it.
    """

    name: str
    label: Label
    look_alike: str | None
    description: str
    engines: tuple[str, ...]
    plot: Plot


BOTH = ("vllm", "sglang")
VLLM = ("vllm",)
SGLANG = ("sglang",)


_ROWS: tuple[tuple[str, Label, str | None, tuple[str, ...], Plot], ...] = (
    ("load_staging_copy", device("load_time", "staging_copy"), "recovery_update_weights", BOTH, start.staging_copy),
    ("load_weights_too_big", device("load_time", "weights_exceed_device", "over_committed_budget"), "load_foreign_process", BOTH, start.weights_too_big),
    ("load_container_pid", device("load_time", "staging_copy"), "load_foreign_process", BOTH, start.container_pid),
    ("load_foreign_process", device("load_time", "foreign_process"), "recovery_orphan_load", BOTH, start.foreign_process),
    ("warm_up_capture", device("warm_up", "graph_capture", "over_committed_budget"), "load_staging_copy", BOTH, start.capture),
    ("warm_up_sampler", device("warm_up", "sampler_warm_up", "over_committed_budget"), "prefill_long_prompt", VLLM, start.sampler),
    ("warm_up_lazy_autotune", device("warm_up", "autotuning", "over_committed_budget"), "prefill_long_prompt", BOTH, serving.lazy_autotune),
    ("warm_up_survived", device("warm_up", "autotuning", "over_committed_budget", survived=True), "warm_up_capture", VLLM, start.autotune_survived),
    ("prefill_long_prompt", device("prefill_spike", "oversized_request", "prefill_activation", "logits"), "warm_up_lazy_autotune", BOTH, serving.long_prompt),
    ("prefill_looks_fragmented", device("prefill_spike", "oversized_request", "prefill_activation", "logits"), "fragmentation_same_shape", BOTH, serving.looks_fragmented),
    ("prefill_block_shortage", blocks("prefill_spike", "oversized_request", "preemption_storm"), "decode_exhausted", SGLANG, serving.block_shortage),
    ("decode_preemption_storm", blocks("decode_growth", "preemption_storm", survived=True), "healthy_busy", VLLM, serving.preemption_storm),
    ("decode_retractions", blocks("decode_growth", "preemption_storm", survived=True), "prefill_block_shortage", SGLANG, serving.retractions),
    ("decode_exhausted", blocks("decode_growth", "preemption_storm", "kv_pool_exhausted"), "prefill_block_shortage", SGLANG, serving.decode_exhausted),
    ("decode_silent_stall", blocks("decode_growth", "preemption_storm", survived=True), "healthy_busy", VLLM, serving.silent_stall),
    ("fragmentation_same_shape", device("fragmentation", "cached_blocks_do_not_fit"), "prefill_looks_fragmented", BOTH, serving.same_shape),
    ("fragmentation_after_larger", device("fragmentation", "cached_blocks_do_not_fit"), "prefill_looks_fragmented", BOTH, serving.after_larger),
    ("recovery_orphan_load", device("recovery", "earlier_incarnation"), "load_foreign_process", VLLM, recovery.orphan_load),
    ("recovery_wake_up", label("oom", "recovery", "device"), "load_staging_copy", VLLM, recovery.wake_up),
    ("recovery_update_weights", device("recovery", "weight_update_overlap"), "load_staging_copy", BOTH, recovery.update_weights),
    ("gate_start_memory", label("capacity_gate", None, "device", "foreign_process", also_causes=("over_committed_budget", "earlier_incarnation")), "load_foreign_process", VLLM, start.start_gate),
    ("gate_start_orphan", label("capacity_gate", "recovery", "device", "earlier_incarnation"), "gate_start_memory", VLLM, recovery.orphan_gate),
    ("gate_request_too_large", label("capacity_gate", None, "kv_blocks", "oversized_request", also_causes=("over_committed_budget",)), "decode_preemption_storm", VLLM, start.kv_gate),
    ("host_kill_kernel", label("oom", "load_time", "host", also_classes=(None,)), "load_staging_copy", BOTH, start.host_kill_kernel),
    ("host_kill_silent", label(None, None, "host"), "host_kill_kernel", BOTH, start.host_kill_silent),
    ("not_oom_illegal_access", label("not_oom", None, None), "prefill_long_prompt", BOTH, serving.illegal_access),
    ("healthy", NOTHING, "healthy_busy", BOTH, serving.healthy),
    ("healthy_busy", NOTHING, "decode_silent_stall", BOTH, serving.healthy_busy),
    ("healthy_quotes", NOTHING, "prefill_long_prompt", VLLM, serving.healthy_quotes),
)  # fmt: skip


def catalogue() -> list[Scenario]:
    """All scenarios, each with its label."""
    return [
        Scenario(name, label, look_alike, " ".join((plot.__doc__ or "").split()), engines, plot)
        for name, label, look_alike, engines, plot in _ROWS
    ]


def find(name: str) -> Scenario:
    """The scenario of that name.

    Raises:
        KeyError: If there is none.
    """
    for scenario in catalogue():
        if scenario.name == name:
            return scenario
    raise KeyError(f"no scenario {name!r}")
