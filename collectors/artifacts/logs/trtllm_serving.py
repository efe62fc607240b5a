"""What TensorRT-LLM prints while it serves: iterations of the PyTorch backend, statistics of the C++ runtime.

Source of the formats: tensorrt_llm/_torch/pyexecutor/py_executor.py (the iteration line, whose fields changed their order
and their separator between releases), cpp/tensorrt_llm/executor/jsonSerialization (numCtxTokens, ...) and the Triton
backend's statistics before 0.10, which are JSON with spaces in their keys.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import BEYOND, Fact, Rules, integer, manifest, phase
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record

rules = Rules()

_NUMBER = Pattern(r"\"?\b([A-Za-z_][\w ]{1,40})\"? ?[=:] ?(\d+(?:\.\d+)?)\b")
_KEYS = {
    "Active Request Count": "active", "numActiveRequests": "active", "numQueuedRequests": "queued",
    "Context Requests": "prefilling", "numContextRequests": "prefilling", "num_ctx_requests": "prefilling",
    "Generation Requests": "generating", "numGenRequests": "generating",
    "Scheduled Requests": "scheduled", "numScheduledRequests": "scheduled", "num_scheduled_requests": "scheduled",
    "Paused Requests": "paused", "numPausedRequests": "paused", "num_paused_requests": "paused",
    "Total Context Tokens": "prefill_tokens", "numCtxTokens": "prefill_tokens", "num_ctx_tokens": "prefill_tokens",
    "num_generation_tokens": "decode_tokens",
    "Iteration Counter": "step", "iter": "step",
    "Max KV cache blocks": "blocks", "maxNumBlocks": "blocks", "Free KV cache blocks": "free", "freeNumBlocks": "free",
    "Tokens per KV cache block": "block_size", "tokensPerBlock": "block_size", "kv_cache_util": "usage",
}  # fmt: skip
"""One name for each number that the versions name differently."""


@rules.on("KV cache blocks", r"\{\"[A-Z][\w ]+\": ?[\d\"].*")
@rules.on("numCtxTokens", r"\{.*")
@rules.on("num_ctx_tokens", r"\biter ?= ?\d.*")
def _iteration(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """One iteration: its batch, its queue, and the pool."""
    told = [(_KEYS[key], float(value)) for key, value in _NUMBER.pairs(match[0].replace("'", '"')) if key in _KEYS]
    numbers = {key: value for key, value in told if abs(value) < BEYOND}
    counts = {key: int(value) for key, value in numbers.items()}
    yield phase("serving", "an iteration")
    yield from _step(counts)
    yield from _pool(counts, numbers.get("usage"))
    if counts.get("paused"):
        fields = {"resource": "kv_blocks", "api": "engine", "error_type": "preemption", "fatal": False}
        yield Fact("oom", {**fields, "requests": counts["paused"], "message": record.text[:1000]})


def _step(counts: dict[str, int]) -> Iterator[Fact]:
    prefill, running = counts.get("prefill_tokens"), counts.get("scheduled")
    decode = counts.get("decode_tokens", counts.get("generating"))
    fields: dict[str, object] = {"mode": "mixed" if prefill and decode else "prefill" if prefill else "decode"}
    given = {
        "step_id": counts.get("step"), "prefill_tokens": prefill, "decode_tokens": decode, "running_requests": running,
    }  # fmt: skip
    for field, value in given.items():
        if value is not None:
            fields[field] = value
    yield Fact("step", fields)
    active, queued = counts.get("active"), counts.get("queued")
    waiting = queued
    if queued is None and active is not None and running is not None:
        waiting = active - running
    if running is not None and waiting is not None:
        yield Fact("throughput", {"running_requests": running, "waiting_requests": max(waiting, 0)})


def _pool(counts: dict[str, int], usage: float | None) -> Iterator[Fact]:
    fields: dict[str, object] = {"tier": "device"}
    total, free = counts.get("blocks"), counts.get("free")
    if total and free is not None:
        fields |= {"total_blocks": total, "free_blocks": free, "usage_ratio": 1 - free / total}
    elif usage is not None:
        fields["usage_ratio"] = usage
    else:
        return
    if counts.get("block_size"):
        fields["block_size_tokens"] = counts["block_size"]
    yield Fact("kv_pool", fields)


@rules.on("Gathering context logits", r"Gathering context logits for request (\d+) \(prompt length (\d+), vocab (\d+)\)")
def _context_logits(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("step", {"mode": "prefill", "prefill_tokens": integer(match[2]), "logits_positions": integer(match[2])})
    yield manifest("model", "vocab_size", match[3])
