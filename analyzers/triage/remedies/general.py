"""Remedies that do not depend on the engine."""

from collections.abc import Iterator

from oomctl.analyzers.triage import ray
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.host import SHARED
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to change whatever the engine."""
    monitored = ray.monitor(case)
    if monitored is not None:
        yield from ray.change(monitored)
    elif incident.resource == "host" and incident.verdict == "oom":
        yield _host(case, incident)
    elif case.root["name"] == "system_memory" and incident.verdict == "capacity_gate":
        yield _larger_than_host(incident)
    allocator = incident.allocator_at_oom
    expandable = case.argument("expandable_segments") is not None or (case.heap is not None and case.heap.expandable)
    if incident.oom_class == "fragmentation" and allocator is not None and not expandable:
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


def _host(case: Case, incident: Incident) -> Remedy:
    held = case.figures["own_process_bytes"]
    if incident.causes and incident.causes[0].cause == "host_neighbour":
        amount = incident.causes[0].bytes
        action = "Move the process that held most of the host's memory away from the worker, or limit it."
        return Remedy(when="change", action=action, frees_bytes=amount, arithmetic=f"it held {size(amount)}")
    if case.root["api"] == SHARED:
        asked = case.figures["requested_bytes"]
        return Remedy(
            when="change",
            action="Give the container more shared memory; it counts against the container's memory limit too.",
            setting="docker run --shm-size 16g, or an emptyDir of medium Memory mounted at /dev/shm",
            arithmetic=f"{size(asked)} were asked for; a container has 64 MiB unless told otherwise" if asked else "",
        )
    if case.root["api"] == "commit_limit":
        return Remedy(
            when="change",
            action="Enlarge Windows' paging file: what a process maps or reserves counts there, whether or not it is used.",
            setting="SystemPropertiesAdvanced.exe, Performance, Virtual memory",
        )
    if incident.oom_class == "load_time" or incident.phase in ("loading", "load_time", "spawned"):
        action = "Raise the container's memory limit above what the process needs to load, or load with fewer copies."
    elif incident.phase in ("serving", "ready"):
        action = "Raise the container's memory limit above what the process needs while it serves, or find what grew."
    else:
        action = "Raise the container's memory limit above what the process needs."
    return Remedy(
        when="change",
        action=action,
        setting="resources.limits.memory",
        short_bytes=None,
        arithmetic=f"it held {size(held)} when it was killed" if held else "",
    )


def _larger_than_host(incident: Incident) -> Remedy:
    needed, short = (incident.causes[0].bytes if incident.causes else None), incident.short_bytes
    return Remedy(
        when="change",
        action="Load a smaller model, or one of fewer bits; or end what else holds memory; or add swap, which counts too.",
        setting="swapon FILE",
        short_bytes=short,
        arithmetic="" if needed is None or short is None else f"it wants {size(needed)}, {size(needed - short)} are there",
    )


def cap(case: Case, incident: Incident) -> Iterator[Remedy]:
    """The limit that the process set on itself: nothing else helps as much."""
    limit, total = case.figures["limit_bytes"], case.figures["total_bytes"]
    if not case.capped or limit is None:
        return
    setting = "torch.cuda.set_per_process_memory_fraction(1.0)"
    if incident.engine == "tgi":
        setting = "--cuda-memory-fraction higher"
    yield Remedy(
        when="change",
        action="Raise or remove the cap on this process: set_per_process_memory_fraction, or the memory fraction in its "
        "PyTorch settings.",
        setting=setting,
        frees_bytes=None if total is None or total <= limit else total - limit,
        short_bytes=incident.short_bytes,
        arithmetic=f"{size(limit)} are allowed" + (f" of {size(total)}" if total else ""),
        quality="estimated",
    )


def allocator_variable(case: Case) -> str:
    """The environment variable that every PyTorch reads.

    Newer releases name PYTORCH_ALLOC_CONF in their message; but 2.9.1 ignores this setting under that name and takes it
    under the older one, which all releases read (pytorch/pytorch issue 183387).
    """
    message = case.root.get("message") or ""
    return "PYTORCH_HIP_ALLOC_CONF" if "PYTORCH_HIP_ALLOC_CONF" in message else "PYTORCH_CUDA_ALLOC_CONF"
