"""Remedies that do not depend on the engine."""

from collections.abc import Iterator

from oomctl.analyzers.triage import host, ray
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy

_CONTAINER = ("Give the container a higher memory limit", "resources.limits.memory")
_HOST = ("Give the host more memory or swap", "swapon FILE")
_WHOSE: dict[str, tuple[str, str]] = {
    "kernel": _HOST,
    "systemd_oomd": _HOST,
    "earlyoom": _HOST,
    "nohang": _HOST,
    "engine": _HOST,
    "systemd": ("Give the host more memory, or the unit a higher limit", "systemctl show UNIT -p MemoryMax -p MemoryPeak"),
    "slurm": ("Ask for more memory for the job", "sbatch --mem"),
    "lsf": ("Ask for more memory for the job", "bsub -M"),
    "pbs": ("Ask for more memory for the job", "qsub -l mem"),
}  # fmt: skip
"""Whose memory must grow, by who told of the end; a container's where nothing tells another."""


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """What to change whatever the engine."""
    monitored = ray.monitor(case)
    if monitored is not None:
        yield from ray.change(monitored, host.largest_holder(case))
    elif incident.resource == "host" and incident.verdict == "oom":
        yield _host(case, incident)
    elif case.root["name"] == "system_memory" and incident.verdict == "capacity_gate":
        yield _larger_than_host(incident)
    elif case.root["name"] == "host_pool" and incident.verdict == "capacity_gate":
        yield _host_pool(case, incident)
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
    if case.root["api"] == host.SHARED:
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
    limit = host.limit_told(case)
    in_container = limit is not None and limit["cgroup_limit_bytes"] is not None
    raised, setting = _CONTAINER if in_container else _WHOSE.get(case.root["api"], _CONTAINER)
    if incident.oom_class == "load_time" or incident.phase in ("loading", "load_time", "spawned"):
        action = f"{raised} than the process needs to load, or load with fewer copies."
    elif incident.phase in ("serving", "ready"):
        action = f"{raised} than the process needs while it serves, or find what grew."
    else:
        action = f"{raised} than the process needs."
    return Remedy(
        when="change",
        action=action,
        setting=setting,
        short_bytes=None,
        arithmetic=_held_and_allowed(held, limit if in_container else None),
    )


def _held_and_allowed(held: int | None, limit: EvidenceRow | None) -> str:
    said = [f"it held {size(held)} when it was killed"] if held else []
    if limit is not None:
        said.append(f"{size(limit['cgroup_limit_bytes'])} were allowed")
    return "; ".join(said)


def _host_pool(case: Case, incident: Incident) -> Remedy:
    """SGLang's cache in host memory: its own check keeps 10 GiB of the host free, and counts in powers of 1000."""
    gate = case.gate or {}
    needed, there = gate.get("needed_bytes"), gate.get("available_bytes")
    fits = None if there is None else int(there // 10**9)
    return Remedy(
        when="change",
        action="Make the KV cache in host memory smaller: each rank on the host allocates one of this size.",
        setting=f"--hicache-size {fits}" if fits else "--hicache-size N, in GB, or --hicache-ratio lower",
        short_bytes=incident.short_bytes,
        frees_bytes=None if needed is None or not fits else needed - fits * 10**9,
        arithmetic=""
        if needed is None or there is None
        else f"this rank asked for {needed / 1e9:.2f} GB, {there / 1e9:.2f} GB were there, less what ranks after it take",
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
