"""The kinds of records: which row of the event table each is, its values in their order, and its enumerations.

Codes and enumerations only grow: never reorder, never reuse.
"""

from oomctl.collectors.agent.layout import FLAG, Packed, RecordKind

PHASES = (
    "spawned", "loading", "weights_loaded", "profiling", "kv_allocated", "compiling", "capturing", "ready", "serving",
    "sleeping", "waking", "reloading", "draining", "stopped", "killed",
)  # fmt: skip
REQUEST_EVENTS = (
    "arrived", "queued", "admitted", "rejected", "scheduled", "blocks_changed", "first_token", "preempted", "resumed",
    "swapped_out", "swapped_in", "tool_wait_started", "tool_wait_ended", "finished", "cancelled", "blocks_freed",
)  # fmt: skip
EVENT = {name: code for code, name in enumerate(REQUEST_EVENTS)}
SAMPLED_BY = ("all", "sample", "oom")
"""Why a request is in the record: all are kept, it was drawn, or it was alive at an OOM."""
ADAPTER_OPS = ("loaded", "evicted", "activated")
TRANSFER_OPS = ("send", "receive", "offload", "onboard", "swap")
RESOURCES = ("device", "kv_blocks", "host", "slots", "driver")
COMPONENTS = (
    "weights", "adapter", "kv_pool", "activation", "logits", "workspace", "collective", "graph_pool", "transfer",
    "context", "non_torch", "other",
)  # fmt: skip
LIFETIMES = ("worker", "request", "iteration", "allocator", "headroom")


def _of(format_: str, *names: str) -> tuple[Packed, ...]:
    return tuple(Packed(name, format_) for name in names)


STEP = RecordKind(
    1,
    "step",
    (
        *_of("q", "step_id"),
        *_of(
            "i", "prefill_tokens", "decode_tokens", "cached_tokens", "running_requests", "waiting_requests",
            "logits_positions", "duration_us",
        ),
        Packed("dumped", "B", FLAG),
    ),
)  # fmt: skip
KV_POOL = RecordKind(
    2,
    "kv_pool",
    (
        *_of("i", "block_size_tokens", "total_blocks", "free_blocks", "used_blocks"),
        *_of(
            "q", "bytes_per_block", "total_tokens", "allocated_blocks", "freed_blocks", "preempted_requests",
            "preempted_tokens", "recomputed_tokens", "prefix_hit_tokens",
        ),
    ),
    ("tier", "group_id"),
)  # fmt: skip
"""At the end of each step, after its STEP."""
REQUEST = RecordKind(
    3,
    "request",
    (
        Packed("event", "B", REQUEST_EVENTS),
        Packed("sampled_by", "B", SAMPLED_BY),
        *_of("f", "sample_weight"),
        *_of("q", "step_id"),
        *_of(
            "i", "prompt_tokens", "cached_tokens", "max_output_tokens", "scheduled_tokens", "computed_tokens",
            "output_tokens", "kv_blocks", "kv_blocks_delta",
        ),
    ),
    ("request_id", "adapter"),
)  # fmt: skip
LIFECYCLE = RecordKind(4, "lifecycle", (Packed("phase", "B", PHASES), *_of("i", "exit_code", "signal")), ("detail",))
GRAPH = RecordKind(
    5,
    "graph",
    (*_of("q", "before_bytes", "after_bytes", "bytes"), Packed("shared", "B", FLAG)),
    ("shape", "pool_id", "mode"),
)
ALLOCATOR = RecordKind(
    6,
    "allocator",
    _of(
        "q", "allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "inactive_split_bytes",
        "largest_free_block_bytes", "private_pool_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
        "num_alloc_retries", "num_ooms",
    ),
)  # fmt: skip
DEVICE = RecordKind(7, "device", _of("q", "total_bytes", "used_bytes", "free_bytes", "budget_bytes"))
HOST = RecordKind(8, "host", _of("q", "rss_bytes", "shared_bytes", "swap_bytes"))
MEMORY = RecordKind(
    9,
    "memory",
    (Packed("component", "B", COMPONENTS), Packed("lifetime", "B", LIFETIMES), *_of("q", "bytes")),
    ("owner", "pool_id", "shape"),
)
ADAPTER = RecordKind(
    10,
    "adapter",
    (Packed("op", "B", ADAPTER_OPS), *_of("i", "lora_rank", "slots"), *_of("q", "bytes", "resident_bytes")),
    ("name",),
)
TRANSFER = RecordKind(
    11, "transfer", (Packed("op", "B", TRANSFER_OPS), *_of("q", "bytes", "tokens", "duration_us")), ("peer",)
)
OOM = RecordKind(
    12,
    "oom",
    (
        Packed("resource", "B", RESOURCES),
        Packed("fatal", "B", FLAG),
        *_of("i", "requests"),
        *_of(
            "q", "requested_bytes", "total_bytes", "free_bytes", "allocated_bytes", "reserved_bytes",
            "reserved_unallocated_bytes",
        ),
    ),
    ("api", "error_type", "message", "stack_id"),
)  # fmt: skip
FAULT = RecordKind(13, "fault", (Packed("fatal", "B", FLAG),), ("code", "detail", "stack_id"))
STACK = RecordKind(14, "stack", _of("i", "depth", "line"), ("stack_id", "file", "function", "code"))
MANIFEST = RecordKind(15, "manifest", (), ("section", "key", "value"))
COLLECTOR = RecordKind(16, "collector", _of("q", "cost_us", "errors", "realtime_ns"), ("name", "state", "detail"))
"""`realtime_ns` is the ring's own: what the wall clock showed at this record's monotonic_ns."""

RING_ONLY = frozenset({("collector", "realtime_ns")})
"""Values that relate records to each other and are no field of the event table."""

KINDS: dict[int, RecordKind] = {
    kind.code: kind
    for kind in (
        STEP, KV_POOL, REQUEST, LIFECYCLE, GRAPH, ALLOCATOR, DEVICE, HOST, MEMORY, ADAPTER, TRANSFER, OOM, FAULT, STACK,
        MANIFEST, COLLECTOR,
    )
}  # fmt: skip
