"""Remedies that do not depend on the engine."""

from collections.abc import Iterator

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.missing import GPU_PROCESSES, KERNEL_LOG
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy


def now(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to do before anything is changed."""
    first = incident.causes[0].cause if incident.causes else None
    amount = incident.causes[0].bytes if incident.causes else None
    short = incident.short_bytes
    if first == "earlier_incarnation":
        yield Remedy(
            when="now",
            action="End the earlier process that still holds the device, then start again.",
            setting=f"{GPU_PROCESSES}; kill PID",
            frees_bytes=amount,
            short_bytes=short,
            arithmetic=f"it holds {size(amount)}",
        )
    elif first == "foreign_process":
        yield Remedy(
            when="now",
            action="Find who else is on the device; stop it, or start on another device.",
            setting=GPU_PROCESSES,
            frees_bytes=amount,
            short_bytes=short,
            arithmetic=f"others hold {size(amount)}",
        )
    elif incident.resource == "host" and incident.verdict is None:
        yield Remedy(when="now", action="Ask the kernel whether it was the OOM killer.", setting=KERNEL_LOG)
    elif incident.resource == "kv_blocks" and incident.verdict == "oom":
        action = "Send less load to this worker until its KV use falls; running requests are computed again meanwhile."
        if incident.survived is False:
            action = "Restart with fewer concurrent requests; the pool was full when it died."
        yield Remedy(when="now", action=action)
    elif incident.oom_class in ("warm_up", "load_time") and incident.survived is not True:
        yield Remedy(
            when="now", action="Start it with the first setting below: as it is, it fails the same way at every start."
        )
    elif incident.oom_class == "prefill_spike":
        yield Remedy(when="now", action="Restart, and hold back requests with prompts as long as the one in the batch.")
    elif incident.verdict == "oom" and incident.oom_class is None and incident.resource == "device":
        yield Remedy(
            when="now",
            action="The log does not decide the class: restart with allocator history on, and keep the snapshot.",
            setting="torch.cuda.memory._record_memory_history(max_entries=100000)",
        )
    elif incident.verdict == "not_oom":
        yield Remedy(
            when="now",
            action="Do not change memory settings; rerun with CUDA_LAUNCH_BLOCKING=1 to get the true stack.",
            setting="CUDA_LAUNCH_BLOCKING=1",
        )


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to change whatever the engine."""
    if incident.resource == "host" and incident.verdict == "oom":
        held = case.figures["own_process_bytes"]
        yield Remedy(
            when="change",
            action="Raise the container's memory limit above what the process needs to load, or load with fewer copies.",
            setting="resources.limits.memory",
            short_bytes=None,
            arithmetic=f"it held {size(held)} when it was killed" if held else "",
        )
    allocator = incident.allocator_at_oom
    if incident.oom_class == "fragmentation" and allocator is not None:
        yield Remedy(
            when="change",
            action="Let the allocator grow segments instead of cutting blocks; not together with vLLM's sleep mode.",
            setting=f"{allocator_variable(case)}=expandable_segments:True",
            frees_bytes=allocator.cached_free_bytes,
            short_bytes=incident.short_bytes,
            arithmetic=f"{size(allocator.cached_free_bytes)} cached could then serve {size(allocator.requested_bytes)}",
            quality="estimated",
        )
    if incident.verdict == "oom" and any(cause.cause == "foreign_process" for cause in incident.causes[1:]):
        cause = next(cause for cause in incident.causes if cause.cause == "foreign_process")
        yield Remedy(
            when="change",
            action="Give the worker a device of its own, or budget for the neighbour.",
            frees_bytes=cause.bytes,
            short_bytes=incident.short_bytes,
            arithmetic=f"others hold {size(cause.bytes)}",
        )


def fewer_requests(case: Case, incident: Incident, flag: str, configured: float | None) -> Remedy:
    """Allow fewer requests at once than ran when the KV pool was full: a limit above that number would change nothing."""
    ran = [row["running_requests"] for row in case.ask("kv_usage") if row["running_requests"]]
    ran += [member["running_before"] for member in case.members if member.get("running_before")]
    action = "Run fewer requests at once, so that those admitted can finish."
    if not ran:
        setting = f"{flag} {int(configured) // 2}" if configured is not None and configured >= 2 else f"{flag} lower"
        return Remedy(when="change", action=action, setting=setting, quality="estimated")
    most = max(ran)
    limit = max(1, min(most * 3 // 4, int(configured or most)))
    usage = max((row["usage_ratio"] for row in case.ask("kv_usage")), default=None)
    return Remedy(
        when="change",
        action=action,
        setting=f"{flag} {limit}",
        arithmetic=f"{most} ran at once"
        + (f" with the pool {usage:.0%} full" if usage is not None else "")
        + "; three quarters leave room to grow",
        quality="estimated",
    )


def allocator_variable(case: Case) -> str:
    """The environment variable that this PyTorch reads, as its own message spells it."""
    message = case.root.get("message") or ""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"):
        if name in message:
            return name
    return "PYTORCH_CUDA_ALLOC_CONF"
