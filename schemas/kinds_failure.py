"""Kinds of the event table that say what went wrong, and where it was written."""

from oomctl.schemas.declare import Kind, flag, integer, number, text

RESOURCES = ("device", "kv_blocks", "host", "slots", "driver")

FAILURE_KINDS: tuple[Kind, ...] = (
    Kind(
        "oom",
        "Memory ran out. Figures as printed; corrections live in views. Retractions and preemptions that a log "
        "reports are rows too (kv_blocks, not fatal).",
        (
            text("resource", "Of what.", *RESOURCES),
            text("api", "Who reported it: torch, cuda, hip, cublas, nccl, cpu_allocator, kernel, engine, ..."),
            text("error_type", "Exception type, or the event (retraction, preemption, oom_kill, sigkill)."),
            text("message", "As printed, redacted."),
            integer("requested_bytes", "Asked for."),
            integer("total_bytes", "Device capacity."),
            integer("free_bytes", "Free on the device."),
            integer("own_process_bytes", "This process, as the driver counts it."),
            integer("other_processes_bytes", "All the others that the message names."),
            integer("allocated_bytes", "Allocated by the framework, as printed."),
            integer("reserved_bytes", "Reserved in total, in the forms that print it (PyTorch before 2.1)."),
            integer("reserved_unallocated_bytes", "Reserved but unallocated, as printed."),
            integer(
                "private_pool_bytes",
                "Printed as allocated in private pools; really free blocks cached there.",
            ),
            integer("limit_bytes", "A limit below the capacity (memory fraction)."),
            integer("resolution_bytes", "Print resolution of the least exact of requested and free."),
            integer("requested_tokens", "KV tokens asked for."),
            integer("available_tokens", "KV tokens free."),
            integer("requests", "Requests preempted, retracted or dropped."),
            text("victim", "The process that was killed for memory, by the name that its killer gives."),
            integer("victim_pid", "Its process id, as its killer counts."),
            flag("fatal", "Whether the engine died of it; NULL where not told."),
            text("stack_id", "The traceback, in kind stack."),
        ),
    ),
    Kind(
        "refusal",
        "A start-up or admission gate refused: nothing failed.",
        (
            text("gate", "Which: start_memory, kv_fits_request, kv_blocks, prompt_too_long, ..."),
            text("resource", "Of what.", *RESOURCES),
            integer("needed_bytes", "Needed."),
            integer("available_bytes", "There."),
            integer("total_bytes", "Device capacity."),
            integer("needed_tokens", "Needed."),
            integer("available_tokens", "There."),
            integer("resolution_bytes", "Print resolution of the byte figures."),
            text("message", "As printed, redacted."),
            text("stack_id", "The traceback, in kind stack."),
        ),
    ),
    Kind(
        "fault",
        "A device, driver or engine fault that is not about memory, or may hide a lack of it.",
        (
            text(
                "code",
                "xid, ecc, illegal_access, segfault, bus_error, abort, thread_limit, peer_lost, nccl_timeout, engine_dead, "
                "exception ...",
            ),
            text("detail", "As printed, redacted."),
            flag("fatal", "Whether the engine died of it."),
            text("stack_id", "The traceback, in kind stack."),
        ),
    ),
    Kind(
        "stack",
        "One frame of a traceback; one row per frame, innermost last.",
        (
            text("stack_id", "Which traceback."),
            integer("depth", "0 is the outermost."),
            text("file", "As printed."),
            integer("line", "Line in that file (stack_line in the view)."),
            text("function", "As printed."),
            text("code", "Source line, where printed."),
        ),
    ),
    Kind(
        "log",
        "A line that gave a fact, is WARNING or above, or belongs to an exception.",
        (
            text("file", "The file it stands in."),
            integer("file_line", "Its line there, where several files are one stream: those of a rotated log."),
            text("level", "DEBUG, INFO, WARNING, ERROR, CRITICAL."),
            text("logger", "Source file or logger that wrote it."),
            text("text", "The line as it stands, redacted, at most 8 KiB."),
        ),
    ),
    Kind(
        "metric",
        "What a scrape had and no other kind holds.",
        (
            text("name", "Metric name."),
            text("labels", "JSON."),
            number("value", "Value."),
        ),
    ),
    Kind(
        "loss",
        "What was lost, and why.",
        (
            text("reason", "Why."),
            integer("count", "How many."),
            text("detail", "More."),
        ),
    ),
    Kind(
        "collector",
        "A collector's state, cost and errors.",
        (
            text("name", "Which."),
            text("state", "ok, degraded, failed, absent."),
            text("detail", "Why."),
            integer("cost_us", "CPU time of this sample."),
            integer("errors", "Cumulative."),
        ),
    ),
)
