"""What to do differently, where no option's value is the matter: the order of steps, or what is loaded."""

from collections.abc import Iterator

from oomctl.analyzers.triage.remedies.options import Engine
from oomctl.schemas.verdict import Incident, Remedy


def change(incident: Incident, engine: Engine) -> Iterator[Remedy]:
    """Procedures for the causes of an incident."""
    causes = {cause.cause for cause in incident.causes}
    if incident.verdict != "oom":
        return
    if "staging_copy" in causes and engine.engine == "vllm":
        yield Remedy(
            when="change",
            action="Serve a checkpoint that is quantised already: online quantisation holds both copies of a layer.",
            setting="--model CHECKPOINT-FP8 without --quantization",
            short_bytes=incident.short_bytes,
            quality="estimated",
        )
    if incident.oom_class != "recovery":
        return
    if "wake_up_overlap" in causes and engine.engine == "vllm":
        yield Remedy(
            when="change",
            action="Wake up only after the other process has given its memory back; wake weights first, then KV cache.",
            setting="POST /wake_up?tags=weights, then POST /wake_up?tags=kv_cache",
            short_bytes=incident.short_bytes,
        )
    elif "earlier_incarnation" in causes and incident.resource == "host":
        yield Remedy(
            when="change",
            action="Start the new worker only when the old one is gone, or give both together the memory that they need.",
            setting="strategy.rollingUpdate.maxSurge: 0, or a higher resources.limits.memory",
            frees_bytes=next(cause.bytes for cause in incident.causes if cause.cause == "earlier_incarnation"),
        )
    elif "earlier_incarnation" in causes:
        yield Remedy(
            when="change",
            action="Start the new worker only when the device is empty: wait for it, and roll out without surge.",
            setting="strategy.rollingUpdate.maxSurge: 0, and a wait on nvidia-smi's used memory before the engine starts",
            frees_bytes=next(cause.bytes for cause in incident.causes if cause.cause == "earlier_incarnation"),
            short_bytes=incident.short_bytes,
        )
