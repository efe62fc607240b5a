"""Short forms for the facts that the engines' lines give."""

from tests.scenarios.entries import Fact, Value
from tests.scenarios.printing import Printed


def lifecycle(phase: str, detail: str | None = None, **more: Value) -> Fact:
    """A phase of the worker's life begins."""
    return Fact("lifecycle", {"phase": phase, "detail": detail, **more})


def memory(component: str, size: Printed, owner: str | None = None) -> Fact:
    """Bytes of one component, as printed."""
    fields: dict[str, Value] = {
        "component": component,
        "lifetime": {"activation": "iteration", "non_torch": "worker"}.get(component, "worker"),
        "owner": owner,
        "bytes": size.bytes,
        "resolution_bytes": size.resolution_bytes,
    }
    return Fact("memory", fields)


def manifest(section: str, **pairs: object) -> tuple[Fact, ...]:
    """What runs: one row for each key."""
    return tuple(Fact("manifest", {"section": section, "key": key, "value": str(value)}) for key, value in pairs.items())


def kv_usage(tenths: int) -> Fact:
    """KV usage printed in tenths of a percent."""
    return Fact("kv_pool", {"tier": "device", "usage_ratio": tenths / 1000, "usage_resolution_ratio": 0.0005})


def throughput(prompt: float, generation: float, running: int, waiting: int, preempted: int | None) -> Fact:
    """What the engine reports from time to time."""
    fields: dict[str, Value] = {
        "prompt_tokens_per_s": prompt,
        "generation_tokens_per_s": generation,
        "running_requests": running,
        "waiting_requests": waiting,
        "preempted_requests": preempted,
    }
    return Fact("throughput", fields)


def prefill_step(tokens: int, running: int, waiting: int, cached: int | None = None) -> Fact:
    """A prefill batch."""
    fields: dict[str, Value] = {
        "mode": "prefill",
        "prefill_tokens": tokens,
        "cached_tokens": cached,
        "running_requests": running,
        "waiting_requests": waiting,
    }
    return Fact("step", fields)


def dumped_step(tokens: int) -> Fact:
    """The failing batch, as the engine dumps it after the failure."""
    fields: dict[str, Value] = {"mode": "prefill", "prefill_tokens": tokens, "running_requests": 1, "dumped": True}
    return Fact("step", fields)


def blocks_short(event: str, requests: int | None = None, **more: Value) -> Fact:
    """KV blocks ran short: a retraction or preemption (not fatal), or an error that ended the engine."""
    fields: dict[str, Value] = {"resource": "kv_blocks", "api": "engine", "error_type": event, "fatal": False}
    return Fact("oom", fields | {"requests": requests} | more)
