"""vLLM's scheduler dump before a crash: what was in the batch, request by request.

Source: vllm/logging_utils/dump_input.py, which prints the repr of SchedulerOutput and SchedulerStats.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record

rules = Rules()
MAX_REQUESTS = 512

_PER_REQUEST = Pattern(r"num_scheduled_tokens=\{([^}]{0,65536})\}")
_PAIR = Pattern(r"'?([\w.:-]{1,128})'?: (\d+)")
_TOTAL = Pattern(r"total_num_scheduled_tokens=(\d+)")
_NEW = Pattern(r"NewRequestData\(req_id=([\w.:-]{1,128}),(?:prompt_token_ids_len=(\d+))?")
_CACHED_IDS = Pattern(r"CachedRequestData\(req_ids=\[([^\]]{0,65536})\]")
_COMPUTED = Pattern(r"num_computed_tokens=\[([\d, ]{0,65536})\]")
_OUTPUT = Pattern(r"num_output_tokens=\[([\d, ]{0,65536})\]")
_PREEMPTED = Pattern(r"preempted_req_ids=[\[{]([^\]}]{0,65536})[\]}]")


@rules.on("Dumping scheduler output", r"SchedulerOutput\(.*")
def _output(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The step, and a scheduled row per request. A request that is given more than one token is (still) in its prefill."""
    text = match[0]
    per_request = _PER_REQUEST.search(text)
    scheduled = [(key, integer(value)) for key, value in _PAIR.pairs(per_request[1])] if per_request is not None else []
    total = _TOTAL.search(text)
    prefill = sum(count for _, count in scheduled if count > 1)
    decode = sum(1 for _, count in scheduled if count == 1)
    fields: dict[str, object] = {"running_requests": len(scheduled), "prefill_tokens": prefill, "decode_tokens": decode}
    if total is not None and integer(total[1]) != sum(count for _, count in scheduled):
        # The list was cut, or another form of it: what of the total are prompts is not told.
        fields, prefill, decode = {"prefill_tokens": None, "decode_tokens": None}, 0, 0
    fields["mode"] = "mixed" if prefill and decode else "prefill" if prefill else "decode" if decode else None
    yield Fact("step", {**fields, "dumped": True})
    yield from _requests(text, dict(scheduled))


def _requests(text: str, scheduled: dict[str, int]) -> Iterator[Fact]:
    prompts = {key: integer(length) for key, length in _NEW.pairs(text) if length}
    ids = re.findall(r"'([\w.:-]{1,128})'", (_CACHED_IDS.search(text) or [""] * 2)[1])
    computed = dict(zip(ids, _integers(_COMPUTED.search(text)), strict=False))
    output = dict(zip(ids, _integers(_OUTPUT.search(text)), strict=False))
    for key, count in list(scheduled.items())[:MAX_REQUESTS]:
        fields: dict[str, object] = {
            "request_id": key, "event": "scheduled", "scheduled_tokens": count, "sampled_by": "scheduler_dump",
        }  # fmt: skip
        if key in prompts:
            fields["prompt_tokens"] = prompts[key]
        if key in computed:
            fields["computed_tokens"] = computed[key]
        if key in output:
            fields["output_tokens"] = output[key]
        yield Fact("request", fields)
    preempted = _PREEMPTED.search(text)
    if preempted is not None:
        for key in re.findall(r"'([\w.:-]{1,128})'", preempted[1])[:MAX_REQUESTS]:
            yield Fact("request", {"request_id": key, "event": "preempted", "sampled_by": "scheduler_dump"})


def _integers(match: re.Match[str] | None) -> list[int]:
    return [integer(number) for number in re.findall(r"\d+", match[1])] if match is not None else []


@rules.on("Dumping scheduler stats", r"SchedulerStats\(num_running_reqs=(\d+), num_waiting_reqs=(\d+)")
def _stats(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield Fact("throughput", {"running_requests": integer(match[1]), "waiting_requests": integer(match[2])})
    usage = re.search(r"kv_cache_usage=([\d.]+(?:e-\d+)?)", record.text)
    if usage is not None:
        yield Fact("kv_pool", {"tier": "device", "usage_ratio": float(usage[1])})
