"""What to do before anything is changed."""

from collections.abc import Iterator

from oomctl.analyzers.triage.assess import PROMPT_LOGPROBS
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.commands import GPU_PROCESSES, STACKS, XID_LOG
from oomctl.analyzers.triage.remedies.needs import alone
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy

_LOOK_FOR = {
    "load_time": "Look for a setting that loads less: quantised weights, more devices, or weights in host memory",
    "warm_up": "Look for the settings that bound the warm-up: the largest batch, the graphs captured, the KV pool's share",
}
_INSTEAD: dict[str, tuple[str, str | None]] = {
    "thread_limit": (
        "raise the limit of processes and threads, or start fewer: a thread for each CPU and library adds up",
        "ulimit -u; cat /sys/fs/cgroup/pids.max; OMP_NUM_THREADS=8",
    ),
    "nccl_timeout": ("look what each rank was doing as the collective hung", f"{STACKS}; NCCL_DEBUG=INFO"),
    "kernel_resources": (
        "a kernel asks for more shared memory than a multiprocessor of this chip has: choose another attention or "
        "quantisation backend, or a release that tunes the kernel for it",
        None,
    ),
}
"""What to do about a fault that is no lack of memory, where the true stack would not help."""
_AGAIN = "as it is, it fails the same way at every start."


def now(case: Case, incident: Incident, changes: list[Remedy]) -> Iterator[Remedy]:
    """What to do first; a worker that went on is not told to restart.

    Args:
        case: The failure.
        incident: Its verdict.
        changes: What there is to change.
    """
    first = incident.causes[0].cause if incident.causes else None
    if first in ("earlier_incarnation", "foreign_process"):
        yield _others(incident, first)
    elif first == "ranks_on_one_device":
        yield Remedy(
            when="now",
            action="Give each rank a device of its own: look which devices the worker sees, and which rank took which.",
            setting="CUDA_VISIBLE_DEVICES; nvidia-smi -L",
            frees_bytes=incident.causes[0].bytes,
            short_bytes=incident.short_bytes,
            arithmetic=f"its mates hold {size(incident.causes[0].bytes)}",
        )
    elif incident.verdict is None and any(item.command for item in incident.missing):
        asked = next(item for item in incident.missing if item.command)
        yield Remedy(when="now", action=f"Find out {asked.what}.", setting=asked.command)
    elif incident.resource == "kv_blocks" and incident.verdict == "oom":
        yield Remedy(when="now", action=_of_full_pool(case, incident))
    elif incident.survived is True and not _not_loaded(case, incident):
        yield from _survived(case, incident)
    elif incident.oom_class in ("warm_up", "load_time"):
        if any(remedy.setting for remedy in changes):
            start = "Load it again" if incident.survived is True else "Start it"
            yield Remedy(when="now", action=f"{start} with the first setting below: {_AGAIN}")
        else:
            yield Remedy(when="now", action=f"{_LOOK_FOR[incident.oom_class]}; {_AGAIN}")
    elif first == "library_workspace":
        yield Remedy(
            when="now",
            action="Restart with more of the device left outside the engine's budget: a library's own memory failed.",
        )
    elif incident.oom_class == "prefill_spike":
        yield Remedy(when="now", action=f"Restart, and {_hold_back(case)}.")
    elif incident.verdict == "oom" and incident.oom_class is None and case.heap is not None and case.heap.helps:
        why = (case.heap.why or "").replace("_", " ")
        yield Remedy(
            when="now", action=f"The class is not decided; the allocator's snapshot says {why}: {case.heap.helps[0]}."
        )
    elif incident.verdict == "oom" and incident.oom_class is None and incident.resource == "device":
        yield Remedy(
            when="now",
            action="The log does not decide the class: restart with allocator history on, and keep the snapshot.",
            setting="torch.cuda.memory._record_memory_history(max_entries=100000)",
        )
    elif case.root["name"] == "other_process_killed":
        action = "Nothing for this worker; the host was short of memory, so look who else runs there."
        if case.root["api"] in ("kernel_cgroup", "supervisor"):
            action = "Nothing for this worker; whoever needs the process that was killed must raise its own limit."
        yield Remedy(when="now", action=action)
    elif case.root["name"] == "evicted":
        action = "Do not change memory settings; free the node of what ran out, or ask for as much of it as the pod takes."
        yield Remedy(when="now", action=action, setting="kubectl describe node NODE")
    elif case.root["name"] == "xid":
        yield Remedy(when="now", action="Look the Xid up, and drain the device if it comes again.", setting=XID_LOG)
    elif incident.verdict == "not_oom" and case.root["name"] in _INSTEAD:
        instead, setting = _INSTEAD[case.root["name"]]
        yield Remedy(when="now", action=f"Do not change memory settings; {instead}.", setting=setting)
    elif case.root["what"] == "death" and incident.verdict == "not_oom":
        yield Remedy(when="now", action="Do not change memory settings; mend what the engine says it died of.")
    elif incident.verdict == "not_oom":
        yield Remedy(
            when="now",
            action="Do not change memory settings; rerun with CUDA_LAUNCH_BLOCKING=1 to get the true stack.",
            setting="CUDA_LAUNCH_BLOCKING=1",
        )


def _of_full_pool(case: Case, incident: Incident) -> str:
    """Less load for a worker that goes on; requests are computed again only where some were sent back."""
    goes_on = incident.survived is True or (incident.survived is None and case.root["soft"])
    if alone(case):
        hold_back = "hold back requests as long as the one that filled the pool alone"
        return f"{hold_back[:1].upper()}{hold_back[1:]}." if goes_on else f"Restart, and {hold_back}."
    if goes_on:
        return "Send less load to this worker until its KV use falls; running requests are computed again meanwhile."
    return "Restart with fewer concurrent requests; the pool was full when it failed."


def _others(incident: Incident, first: str) -> Remedy:
    amount, again = incident.causes[0].bytes, incident.survived is not True
    if first == "earlier_incarnation" and incident.resource == "host":
        return Remedy(
            when="now",
            action="End what is left of the other life of this worker, then start again.",
            setting="ps -eo pid,rss,etime,args --sort=-rss; kill PID",
            frees_bytes=amount,
            arithmetic=f"it holds {size(amount)} of the host's memory",
        )
    if first == "earlier_incarnation":
        return Remedy(
            when="now",
            action="End the earlier process that still holds the device" + (", then start again." if again else "."),
            setting=f"{GPU_PROCESSES}; kill PID",
            frees_bytes=amount,
            short_bytes=incident.short_bytes,
            arithmetic=f"it holds {size(amount)}",
        )
    return Remedy(
        when="now",
        action="Find who else is on the device; stop it" + (", or start on another device." if again else "."),
        setting=GPU_PROCESSES,
        frees_bytes=amount,
        short_bytes=incident.short_bytes,
        arithmetic=f"others hold {size(amount)}",
    )


def _not_loaded(case: Case, incident: Incident) -> bool:
    """Whether a server goes on without the model that it was to load."""
    return incident.oom_class in ("warm_up", "load_time") and case.stage != "serving"


def _survived(case: Case, incident: Incident) -> Iterator[Remedy]:
    """The worker serves: watch it, and keep away what it failed on."""
    if incident.oom_class == "prefill_spike":
        yield Remedy(when="now", action=f"Watch it, and {_hold_back(case)}; the worker goes on.")
    elif incident.oom_class == "recovery":
        yield Remedy(when="now", action="Watch it, and hold back what was being loaded or woken up; the worker goes on.")
    elif incident.verdict == "oom" and incident.resource == "device":
        yield Remedy(when="now", action="Watch it: the worker goes on, with as little memory left as before.")


def _hold_back(case: Case) -> str:
    if case.encoder:
        return "hold back requests with images or video as many or as large as in the one that failed"
    if case.called(PROMPT_LOGPROBS):
        return "refuse requests that ask for prompt_logprobs"
    return "hold back requests with prompts as long as the one in the batch"
