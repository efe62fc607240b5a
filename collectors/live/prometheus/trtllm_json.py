"""TensorRT-LLM's iteration statistics: GET /metrics of trtllm-serve is JSON, a record per iteration since the last call.

Keys as tensorrt_llm/metrics/collector.py reads them (at 050f80de); which are there differs between versions.
"""

import json
from collections.abc import Iterator
from typing import Any

from oomctl.collectors.live.prometheus.derived import tokens_of_blocks
from oomctl.collectors.live.prometheus.facts import LARGEST, Fact, Whose

MAX_RECORDS = 1_000
POOL = {
    "maxNumBlocks": "total_blocks",
    "freeNumBlocks": "free_blocks",
    "usedNumBlocks": "used_blocks",
    "tokensPerBlock": "block_size_tokens",
}
STEP = {"numCtxTokens": "prefill_tokens", "numScheduledRequests": "running_requests"}


def is_json(body: bytes, content_type: str) -> bool:
    """Whether a page is JSON and no Prometheus text."""
    return "json" in content_type or body[:100].lstrip()[:1] == b"["


def read(body: bytes) -> tuple[list[Fact], int]:
    """The facts of a page.

    Returns:
        Facts in the order of the iterations, and how many records could not be used or were too many.

    Raises:
        ValueError: If it is no list of records.
    """
    try:
        records = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(records, list):
        raise ValueError("no list of iterations")
    newest = records[-MAX_RECORDS:]
    facts: list[Fact] = []
    skipped = len(records) - len(newest)
    for record in newest:
        if isinstance(record, dict):
            facts += _facts(record)
        else:
            skipped += 1
    return facts, skipped


def _facts(record: dict[str, Any]) -> Iterator[Fact]:
    rank = _count(record.get("attentionDpRank"))
    whose = Whose(f"DP{rank}" if rank else None)
    batch = _dict(record.get("inflightBatchingStats"))
    latency_ms = record.get("iterLatencyMS")
    step = {
        **_named(batch, STEP),
        "step_id": _count(record.get("iter")),
        "waiting_requests": _count(record.get("numQueuedRequests")),
        "duration_us": None if latency_ms is None else _count_of_us(latency_ms),
    }
    if any(value is not None for value in step.values()):
        yield Fact(whose, "step", {name: value for name, value in step.items() if value is not None})
    if pool := _named(_dict(record.get("kvCacheStats")), POOL):
        yield Fact(whose, "kv_pool", pool)
        if more := tokens_of_blocks(pool):
            yield Fact(whose, "kv_pool", more, "derived")
    if (used := _count(record.get("gpuMemUsage"))) is not None:
        yield Fact(whose, "memory", {"component": "other", "owner": "runtime", "bytes": used})
    if (pinned := _count(record.get("pinnedMemUsage"))) is not None:
        yield Fact(whose, "host", {"pinned_bytes": pinned})


def _named(record: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {field: value for key, field in names.items() if (value := _count(record.get(key))) is not None}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count_of_us(milliseconds: Any) -> int | None:
    return _count(milliseconds * 1000) if isinstance(milliseconds, int | float) else None


def _count(value: Any) -> int | None:
    """A figure that is none, or that means "not known" (negative), is NULL."""
    return round(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST else None
