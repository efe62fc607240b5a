"""What vLLM's own exceptions mean: start-up gates, KV shortage, and exceptions that only follow from another."""

import re

from oomctl.collectors.artifacts.logs.fact import Fact, gib, integer
from oomctl.collectors.artifacts.logs.pattern import Pattern

_FREE = Pattern(r"Free memory on device (?:cuda:(\d+) |\S+ )?\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired")
_DESIRED = Pattern(r"utilization \(([\d.]+), ([\d.]+) GiB\)")
_SERVE_ONE = Pattern(
    r"max seq len \(?(\d+)\)?, \(?([\d.]+) GiB KV cache is needed, which is larger than the available KV cache memory "
    r"\(([\d.]+) GiB\)"
)
_NO_BLOCKS = Pattern(r"No available memory for the cache blocks")
_LEFT = Pattern(r"Available KV cache memory: (-?[\d.]{1,12}) ?GiB")
_MAX_LEN = Pattern(
    r"max seq len \((\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((\d+)\)"
)
_NO_SWAP = Pattern(r"(?i)lack of (?:CPU )?swap space")
_NO_FREE_BLOCKS = Pattern(r"(?i)cannot get \d+ free blocks|no free blocks are available")
_FREE_INCREASED = Pattern(
    r"Error in memory profiling|Initial (?:used|free) memory [\d.]+ GiB, current (?:used|free) memory"
)


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """The refusal or fault that an exception of vLLM is."""
    match = _FREE.search(message)
    if match is not None:
        return _start_memory(match, message)
    match = _SERVE_ONE.search(message)
    if match is not None:
        return _refusal("kv_fits_request", "kv_blocks", message, needed=match[2], available=match[3], tokens=match[1])
    if _NO_BLOCKS.search(message):
        left = _LEFT.search(message)
        return _refusal("kv_blocks", "device", message, available=left[1] if left is not None else None)
    match = _MAX_LEN.search(message)
    if match is not None:
        fact = _refusal("kv_fits_request", "kv_blocks", message, tokens=match[1])
        fact.fields["available_tokens"] = integer(match[2])
        return fact
    if _NO_SWAP.search(message):
        return _blocks("swap_exhausted", message)
    if error_type.endswith("NoFreeBlocksError") or _NO_FREE_BLOCKS.search(message):
        return _blocks("no_free_blocks", message)
    if _FREE_INCREASED.search(message) and "memory" in message:
        return _refusal("memory_profiling", "device", message)
    if error_type.endswith("EngineDeadError") or "Engine core initialization failed" in message:
        return Fact("fault", {"code": "engine_dead", "detail": message[:1000], "fatal": True})
    return None


def _blocks(event: str, message: str) -> Fact:
    """The scheduler needed blocks for running requests, and found none: it dies of that, whichever version."""
    fields = {"resource": "kv_blocks", "api": "engine", "error_type": event, "message": message[:2000], "fatal": True}
    return Fact("oom", fields)


def _start_memory(match: re.Match[str], message: str) -> Fact:
    desired = _DESIRED.search(message)
    fact = _refusal("start_memory", "device", message, needed=desired[2] if desired else None, available=match[2])
    total = gib(match[3])
    if total is not None:
        fact.fields["total_bytes"] = total.bytes
    if match[1] is not None:
        fact.common["device_id"] = integer(match[1])
    return fact


def _refusal(
    gate: str,
    resource: str,
    message: str,
    *,
    needed: str | None = None,
    available: str | None = None,
    tokens: str | None = None,
) -> Fact:
    fields: dict[str, object] = {"gate": gate, "resource": resource, "message": message[:2000]}
    known = []
    for key, printed in (("needed_bytes", needed), ("available_bytes", available)):
        amount = gib(printed) if printed is not None else None
        if amount is not None:
            fields[key] = amount.bytes
            known.append(amount.resolution)
    if known:
        fields["resolution_bytes"] = max(known)
    if tokens is not None:
        fields["needed_tokens"] = integer(tokens)
    return Fact("refusal", fields)
