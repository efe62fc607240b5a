"""What vLLM prints while it serves: throughput, KV usage, steps, preemption, sleep.

Source: vllm/engine/metrics.py, v1/metrics/loggers.py, core/scheduler.py, v1/engine/core.py, device_allocator/cumem.py.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, phase
from oomctl.collectors.artifacts.logs.record import Record

rules = Rules()

_G = r"(-?[\d.]+) ?GiB"
_COUNTS = re.compile(r"(Running|Waiting|Pending|Swapped|Preemptions): (\d+)")
_USAGE = re.compile(r"KV cache usage: ([\d.]+)%")
_COUNTED = {
    "Running": "running_requests",
    "Waiting": "waiting_requests",
    "Pending": "waiting_requests",
    "Swapped": "swapped_requests",
    "Preemptions": "preempted_requests",
}


@rules.on(
    "Avg prompt throughput", r"Avg prompt throughput: ([\d.]+) tokens/s, Avg generation throughput: ([\d.]+) tokens/s"
)
def _throughput(match: re.Match[str], record: Record) -> Iterator[Fact]:
    text = record.text
    fields: dict[str, object] = {
        "prompt_tokens_per_s": float(match[1]),
        "generation_tokens_per_s": float(match[2]),
    }
    for label, count in _COUNTS.findall(text):
        fields[_COUNTED[label]] = integer(count)
    yield Fact("throughput", fields)
    requests = fields.get("preempted_requests")
    if isinstance(requests, int) and requests:
        yield _preemption(record, requests)
    usage = _USAGE.search(text)
    if usage is not None:
        digits = len(usage[1].partition(".")[2])
        yield Fact(
            "kv_pool",
            {
                "tier": "device",
                "usage_ratio": float(usage[1]) / 100,
                "usage_resolution_ratio": 0.5 / 100 / 10**digits,
            },
        )


@rules.on(
    "not enough KV cache space",
    r"Sequence group \S+ is preempted by (\S+) mode .*?(?:total_num_cumulative_preemption=(\d+))?\.?$",
)
def _preempted(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield _preemption(record, 1)


def _preemption(record: Record, requests: int) -> Fact:
    fields = {"resource": "kv_blocks", "api": "engine", "error_type": "preemption", "requests": requests, "fatal": False}
    return Fact("oom", {**fields, "message": record.text[:1000]})


@rules.on(
    "Iteration(",
    r"Iteration\((\d+)\): (\d+) context requests, (\d+) context tokens, (\d+) generation requests, (\d+) generation tokens",
)
def _iteration(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """One step, where --enable-logging-iteration-details is on."""
    context, decode = integer(match[3]), integer(match[5])
    yield Fact(
        "step",
        {
            "step_id": integer(match[1]),
            "mode": "mixed" if context and decode else "prefill" if context else "decode",
            "prefill_tokens": context,
            "decode_tokens": decode,
            "running_requests": integer(match[2]) + integer(match[4]),
        },
    )


@rules.on("Sleep mode freed", rf"Sleep mode freed {_G} memory, {_G} memory is still in use")
@rules.on("to fall asleep", r"It took [\d.]+ seconds to fall asleep")
def _sleep(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("sleeping", match[0])


@rules.on("to wake up", r"It took [\d.]+ seconds to wake up")
def _wake(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("waking", match[0])


@rules.on("/sleep", r"\"(?:POST|GET) /sleep\b.*HTTP/")
def _slept(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("sleeping", match[0])


@rules.on("/wake_up", r"\"(?:POST|GET) /wake_up\b.*HTTP/")
def _woken(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("waking", match[0])
