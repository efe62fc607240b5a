"""What leaves over OTLP, and under which name: the one list, from which docs/otlp.md is checked.

A name of OpenTelemetry's conventions is used where one exists (process.memory.usage, gen_ai.usage.*, error.type,
host.name); all others begin with `oomctl.`. Units are UCUM, as the conventions want.
"""

from dataclasses import dataclass
from typing import Literal

Instrument = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True)
class Metric:
    """A field of the event table as a metric.

    Attributes:
        kind: Of the row.
        field: Of that kind.
        name: As sent.
        unit: UCUM.
        instrument: A counter's field is cumulative in the table, or (`each`) counted row by row.
        each: Whether each row adds its value; an empty field adds 1 for each row.
        attributes: Fields that become attributes, under `oomctl.FIELD`.
    """

    kind: str
    field: str
    name: str
    unit: str
    instrument: Instrument = "gauge"
    each: bool = False
    attributes: tuple[str, ...] = ()


METRICS: tuple[Metric, ...] = (
    Metric("kv_pool", "usage_ratio", "oomctl.kv_pool.usage", "1", attributes=("group_id", "tier")),
    Metric("kv_pool", "total_blocks", "oomctl.kv_pool.blocks.limit", "{block}", attributes=("group_id", "tier")),
    Metric("kv_pool", "used_blocks", "oomctl.kv_pool.blocks.used", "{block}", attributes=("group_id", "tier")),
    Metric("kv_pool", "free_blocks", "oomctl.kv_pool.blocks.free", "{block}", attributes=("group_id", "tier")),
    Metric("kv_pool", "preempted_requests", "oomctl.requests.preempted", "{request}", "counter"),
    Metric("kv_pool", "recomputed_tokens", "oomctl.tokens.recomputed", "{token}", "counter"),
    Metric("kv_pool", "prefix_hit_tokens", "oomctl.tokens.prefix_hit", "{token}", "counter"),
    Metric("step", "", "oomctl.steps", "{step}", "counter", each=True),
    Metric("step", "prefill_tokens", "oomctl.tokens.prefill", "{token}", "counter", each=True),
    Metric("step", "decode_tokens", "oomctl.tokens.decode", "{token}", "counter", each=True),
    Metric("step", "running_requests", "oomctl.requests.running", "{request}"),
    Metric("step", "waiting_requests", "oomctl.requests.waiting", "{request}"),
    Metric("step", "duration_us", "oomctl.step.duration", "s", "histogram", each=True),
    Metric("allocator", "allocated_bytes", "oomctl.allocator.allocated", "By"),
    Metric("allocator", "reserved_bytes", "oomctl.allocator.reserved", "By"),
    Metric("allocator", "inactive_split_bytes", "oomctl.allocator.inactive_split", "By"),
    Metric("allocator", "private_pool_bytes", "oomctl.allocator.private_pool", "By"),
    Metric("allocator", "num_alloc_retries", "oomctl.allocator.retries", "{retry}", "counter"),
    Metric("allocator", "num_ooms", "oomctl.allocator.ooms", "{event}", "counter"),
    Metric("device", "total_bytes", "oomctl.device.memory.limit", "By"),
    Metric("device", "used_bytes", "oomctl.device.memory.used", "By"),
    Metric("device", "free_bytes", "oomctl.device.memory.free", "By"),
    Metric("host", "rss_bytes", "process.memory.usage", "By"),
    Metric("memory", "bytes", "oomctl.memory.usage", "By", attributes=("component", "owner")),
    Metric("graph", "bytes", "oomctl.graph.captured", "By", "counter", each=True),
    Metric("adapter", "resident_bytes", "oomctl.adapter.resident", "By"),
    Metric("transfer", "bytes", "oomctl.transfer.io", "By", "counter", each=True, attributes=("op",)),
    Metric("oom", "", "oomctl.oom.events", "{event}", "counter", each=True, attributes=("resource", "fatal")),
    Metric("loss", "count", "oomctl.recorder.lost", "{record}", "counter", each=True, attributes=("reason",)),
    Metric("collector", "cost_us", "oomctl.recorder.cpu", "s", "counter", each=True),
)

SCALE = {"s": 1e-6}
"""From the table's unit to the metric's."""

REQUEST_SPAN = "oomctl.request"
"""From the first event of a request to its end; its other events are span events, `oomctl.request.EVENT`."""
OOM_SPAN = "oomctl.oom"
"""An instant, with an error status."""
REQUEST_ATTRIBUTES = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "oomctl.request.cached_tokens",
    "max_output_tokens": "oomctl.request.max_output_tokens",
    "kv_blocks": "oomctl.request.kv_blocks",
    "adapter": "oomctl.request.adapter",
    "sample_weight": "oomctl.request.sample_weight",
}
OOM_ATTRIBUTES = {
    "error_type": "error.type",
    "resource": "oomctl.oom.resource",
    "api": "oomctl.oom.api",
    "requested_bytes": "oomctl.oom.requested_bytes",
    "free_bytes": "oomctl.oom.free_bytes",
    "fatal": "oomctl.oom.fatal",
}
EVERYWHERE = ("oomctl.worker", "oomctl.incarnation", "oomctl.rank")
"""Attributes of every span; metrics leave the incarnation out, which would begin new series at each restart."""
