"""Kinds of the event table that say what the engine did: its life, its batches, its requests."""

from oomctl.schemas.declare import Field, Kind, flag, integer, number, text

PHASES = (
    "spawned", "loading", "weights_loaded", "profiling", "kv_allocated", "compiling", "capturing", "ready", "serving",
    "sleeping", "waking", "reloading", "draining", "stopped", "killed",
)  # fmt: skip
REQUEST_EVENTS = (
    "arrived", "queued", "admitted", "rejected", "scheduled", "blocks_changed", "first_token", "preempted", "resumed",
    "swapped_out", "swapped_in", "tool_wait_started", "tool_wait_ended", "finished", "cancelled", "blocks_freed",
)  # fmt: skip

SERVING_KINDS: tuple[Kind, ...] = (
    Kind(
        "manifest",
        "What runs: model, engine, parallelism, formats and arguments, as found.",
        (
            text("section", "model, engine, parallelism, format, argument, environment."),
            text("key", "As the engine spells it."),
            text("value", "As printed."),
        ),
    ),
    Kind(
        "lifecycle",
        "A phase of the worker's life begins.",
        (
            text("phase", "Which.", *PHASES),
            text("detail", "What the source said of it."),
            integer("exit_code", "Of a process that ended."),
            integer("signal", "That ended it."),
        ),
    ),
    Kind(
        "step",
        "One engine step, or one batch as a log prints it.",
        (
            integer("step_id", "As the engine counts."),
            text("mode", "prefill, decode, mixed; prompt: a whole prompt as it is handed to the engine."),
            integer("prefill_tokens", "Scheduled prompt tokens."),
            integer("decode_tokens", "Scheduled decode tokens."),
            integer("cached_tokens", "Prompt tokens found in the prefix cache."),
            integer("running_requests", "Running."),
            integer("waiting_requests", "Queued."),
            integer("logits_positions", "Positions for which logits are computed."),
            integer("duration_us", "How long it took."),
            flag("dumped", "Printed by the engine because it failed: the failing batch itself."),
        ),
    ),
    Kind(
        "request",
        "Something happened to a request.",
        (
            text("request_id", "As the engine names it."),
            text("session_id", "Conversation."),
            text("parent_id", "Request it branched from."),
            integer("branch", "Branch number."),
            text("event", "What.", *REQUEST_EVENTS),
            integer("step_id", "In which step."),
            text("cohort", "Cohort label."),
            text("tenant", "Tenant."),
            text("adapter", "Adapter."),
            integer("prompt_tokens", "Prompt length."),
            integer("cached_tokens", "Of these from the prefix cache."),
            integer("max_output_tokens", "Allowed output."),
            integer("reserved_output_tokens", "Reserved output."),
            integer("scheduled_tokens", "In this step."),
            integer("computed_tokens", "Computed so far."),
            integer("output_tokens", "Generated so far."),
            text("prefix_id", "Hash of the shared prefix."),
            integer("kv_blocks", "Blocks held."),
            integer("kv_blocks_delta", "Change."),
            text("tool_action", "preserve, offload, discard."),
            Field("deadline", "timestamp", "By when it must finish."),
            number("sample_weight", "How many requests this one stands for."),
            text("sampled_by", "Why it was kept."),
        ),
    ),
    Kind(
        "kv_block",
        "The cache index changed (not the usage).",
        (
            text("op", "What.", "stored", "removed", "hit", "copied", "cleared"),
            text("request_id", "By which request."),
            text("block_hash", "Hex."),
            text("parent_hash", "Hex."),
            integer("tokens", "How many."),
            text("medium", "Tier."),
            text("group_id", "KV cache group."),
        ),
    ),
    Kind(
        "transfer",
        "KV or weights moved.",
        (
            text("op", "What.", "send", "receive", "offload", "onboard", "swap"),
            text("peer", "With whom."),
            integer("bytes", "How many."),
            integer("tokens", "How many."),
            integer("duration_us", "How long."),
        ),
    ),
    Kind(
        "adapter",
        "An adapter came or went.",
        (
            text("op", "loaded, evicted, activated."),
            text("name", "Which."),
            integer("lora_rank", "Its rank."),
            integer("bytes", "Its size."),
            integer("resident_bytes", "Of all resident adapters."),
            integer("slots", "Slots in use."),
        ),
    ),
    Kind(
        "throughput",
        "What the engine reports from time to time.",
        (
            number("prompt_tokens_per_s", "Prompt throughput."),
            number("generation_tokens_per_s", "Generation throughput."),
            integer("running_requests", "Running."),
            integer("waiting_requests", "Waiting."),
            integer("swapped_requests", "Swapped out."),
            integer("preempted_requests", "Preempted since the last report."),
            integer("finished_requests", "Finished."),
            integer("cancelled_requests", "Cancelled."),
            integer("retracted_requests", "Retracted (SGLang)."),
        ),
    ),
)
