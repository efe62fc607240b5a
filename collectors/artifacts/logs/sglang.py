"""SGLang's log lines, 0.3 to 0.5. What it prints as GB is GiB: it divides by 2**30.

Source of the formats: sglang/srt/managers/scheduler*.py, model_executor/model_runner.py, cuda_graph_runner.py,
mem_cache/*, observability/* of the releases.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.arguments import arguments
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, gib, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import size

name = "sglang"
sources = r"sglang/(?:srt|multimodal_gen)/"
rules = Rules()

_RANKS = r"(?:(?:ATTN_TP|MOE_DP|DP|PP|TP|EP|CP)\d+ ?)+"
HEADER = HeaderPattern(
    engine=name,
    pattern=re.compile(
        rf"\[(?:(?P<ts>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{{1,6}})?)(?: (?P<ranks>{_RANKS}))?"
        rf"| ?(?P<ranks0>{_RANKS}))\]:? ?"
    ),
    anchor=re.compile(r"\[(?:20\d\d-| ?[A-Z_]{2,7}\d)"),
    year=True,
)

_AVAILABLE = Pattern(r"avail(?:able_gpu_)?(?:_| )?mem=([\d.]+) GB")
_SHORTAGE = Pattern(r"(Decode|Prefill) out of memory\. Try to lower your batch size")
_TRY = Pattern(r"Try to allocate (\d+) tokens")
_TOKENS = Pattern(r"Avai?l?i?able tokens: (\d+)|available_size\(\)\s*=\s*(\d+)|available_size=(\d+)")
_LAST_REQUEST = Pattern(
    r"(?i)no space left for (?:the )?(?:only |last )?(?:one |remaining )?request|failed to retract any request"
)
"""What the scheduler raises when even one request alone is more than the pool holds: there is nobody left to retract."""
_HOST_POOL = Pattern(
    r"Not enough host memory available\. Requesting ([\d.]{1,20}) GB but only have (-?[\d.]{1,20}) GB free"
)
"""HiCache's pool, of every rank; 10 GiB of the host stay reserved. These GB are 10**9 bytes."""
_COUNT = Pattern(r"#([\w-]+): (\d+)")
_USAGE = Pattern(r" usage: (\d+\.\d+)")
_LAST_WORD = re.compile(r"\w+$")
_GRAPH = Pattern(r"Capture cuda graph failed: (.*)", re.DOTALL)


@rules.on("server_args=", r"server_args=(?:ServerArgs\(|\{)(.*)")
def _server_args(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", "server_args")
    yield manifest("engine", "name", name)
    yield from arguments(match[1])


@rules.on("Init torch distributed begin")
@rules.on("Load weight begin", r"Load weight begin\..*")
@rules.on("Multi-thread loading shards", r"Multi-thread loading shards: +0%")
def _loading(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])
    yield from _free(record)


@rules.on("Init torch distributed ends", r"Init (?:torch distributed|parallel) ends\..*mem usage=([\d.]+) GB")
def _distributed(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("collective", gib(match[1]))


@rules.on("Load weight end", r"Load weight end\.(?:.*?mem usage=([\d.]+) GB)?")
def _loaded(match: re.Match[str], record: Record) -> Iterator[Fact]:
    if match[1] is not None:
        yield from memory("weights", gib(match[1]), owner="steady")
    yield phase("weights_loaded")
    yield from _free(record)


@rules.on("KV Cache is allocated", r"#tokens: (\d+)(?:, K size: ([\d.]+) GB, V size: ([\d.]+) GB|, KV size: ([\d.]+) GB)?")
@rules.on("KV cache allocated", r"#tokens: (\d+)(?:, K size: ([\d.]+) GB, V size: ([\d.]+) GB|, KV size: ([\d.]+) GB)?")
def _kv(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[1])})
    for printed, owner in ((match[2], "k"), (match[3], "v"), (match[4], "kv")):
        if printed is not None:
            yield from memory("kv_pool", gib(printed), owner=owner)
    yield phase("kv_allocated")


@rules.on("Memory pool end", r"Memory pool end\..*")
def _pool(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield phase("kv_allocated", match[0])
    yield from _free(record)


@rules.on(" graph begin", r"Capture .{0,40}(?:cuda|CUDA) graph begin\..*")
@rules.on("Capturing batches", r"Capturing batches \(.{0,80}")
def _capturing(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield phase("capturing", match[0])
    yield from _free(record)


@rules.on("graph end", r"Capture (.{0,40}?) ?(?:cuda|CUDA) graph end\..*?mem usage=([\d.]+) GB")
def _captured(match: re.Match[str], record: Record) -> Iterator[Fact]:
    amount = gib(match[2])
    if amount is not None:
        yield Fact("graph", {"bytes": amount.bytes, "resolution_bytes": amount.resolution, "mode": match[1] or None})
        yield from memory("graph_pool", amount, owner="captured")
    yield from _free(record)


@rules.on("max_total_num_tokens=", r"max_total_num_tokens=(\d+), (.*)")
def _sizes(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[1])})
    yield from arguments(match[2])
    yield from _free(record)


@rules.on("fired up and ready to roll")
def _ready(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("ready", match[0])


@rules.on("Prefill batch", r"Prefill batch[.,] #new-seq: (\d+), #new-token: (\d+), #cached-token: (\d+)")
def _prefill(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield from _batch("prefill", record, {"prefill_tokens": integer(match[2]), "cached_tokens": integer(match[3])})


@rules.on("Decode batch", r"Decode batch[.,] #running-req: (\d+)")
def _decode(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield from _batch("decode", record, {"decode_tokens": integer(match[1])})


def _batch(mode: str, record: Record, fields: dict[str, object]) -> Iterator[Fact]:
    text = record.text
    numbers = dict(_COUNT.pairs(text))
    step: dict[str, object] = {"mode": mode, **fields}
    if "running-req" in numbers:
        step["running_requests"] = integer(numbers["running-req"])
    if "queue-req" in numbers:
        step["waiting_requests"] = integer(numbers["queue-req"])
    yield Fact("step", step)
    for group, usage in _usages(text):
        kv: dict[str, object] = {
            "tier": "device",
            "group_id": group if group not in ("token", "full") else None,
            "usage_ratio": float(usage),
            "usage_resolution_ratio": 0.005,
        }
        if mode == "decode" and "token" in numbers and kv["group_id"] is None:
            kv["used_tokens"] = integer(numbers["token"])
        yield Fact("kv_pool", kv)


def _usages(text: str) -> Iterator[tuple[str, str]]:
    """(group of the KV cache, used share) as printed: "token usage: 0.31", "full token usage: 0.31", "mamba usage: 0.02".

    Looked for by the words that all have in common: a search for any word before them takes ten times as long.
    """
    end = 0
    for match in _USAGE.finditer(text):
        before, space, last = text[end : match.start()].rpartition(" ")
        if last == "token" and space:
            word = _LAST_WORD.search(before.rpartition(" ")[2])
            group = word[0] if word is not None else "token"
        elif last.endswith("mamba"):
            group = "mamba"
        else:
            continue
        yield group, match[1]
        end = match.end()


@rules.on("KV cache pool is full", r"KV cache pool is full\. Retract requests\.")
@rules.on("ecode out of memory happened", r"[Dd]ecode out of memory happened[.,]")
def _retract(match: re.Match[str], record: Record) -> Iterator[Fact]:
    numbers = dict(re.findall(r"#(\w+): (\d+)", record.text))
    fields: dict[str, object] = {
        "resource": "kv_blocks", "api": "engine", "error_type": "retraction", "message": record.text[:1000], "fatal": False,
    }  # fmt: skip
    if "retracted_reqs" in numbers:
        fields["requests"] = integer(numbers["retracted_reqs"])
    yield Fact("oom", fields)


@rules.on("retract_decode: aborted", r"retract_decode: aborted last request \S{1,128}")
def _aborted_last(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """Newer versions give the last request up where older ones died: the scheduler goes on."""
    fields = {"error_type": "retraction_failed", "message": record.text[:1000], "requests": 1, "fatal": False}
    yield Fact("oom", {"resource": "kv_blocks", "api": "engine", **fields})


@rules.on(
    "out of memory. Try to lower your batch size", r"^(?:Decode|Prefill) out of memory\. Try to lower your batch size"
)
def _shortage(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield from _kv_shortage(record.text)


@rules.on("release_memory_occupation")
def _release(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("sleeping", match[0])


@rules.on("resume_memory_occupation")
def _resume(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("waking", match[0])


@rules.on("Received sigquit from a child process")
@rules.on("hit an exception", r"(?:Scheduler|\w{1,40}Manager|\w{1,40}Controller|\w{1,40}Client) hit an exception")
def _dead(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """What a process of the engine says before it ends, and the parent's word on it."""
    yield Fact("fault", {"code": "engine_dead", "detail": match[0], "fatal": True})


@rules.on("atchdog timeout", r"Scheduler watchdog timeout.*|Watchdog timeout.*")
def _watchdog(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("fault", {"code": "watchdog", "detail": match[0][:500], "fatal": True})


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """The oom, refusal or fault that an exception of SGLang is."""
    if _SHORTAGE.search(message):
        return next(_kv_shortage(message), None)
    if _LAST_REQUEST.search(message):
        fields = {"error_type": "retraction_failed", "message": message[:1000], "fatal": True, **_available_tokens(message)}
        return Fact("oom", {"resource": "kv_blocks", "api": "engine", **fields})
    graph = _GRAPH.search(message)
    if graph is not None and "out of memory" not in graph[1].partition("\n")[0].lower():
        # The advice that follows names memory settings whatever the cause was.
        return Fact("fault", {"code": "capture_failed", "detail": graph[1].partition("\n")[0][:500], "fatal": True})
    if "Not enough memory" in message and "mem-fraction-static" in message:
        return Fact("refusal", {"gate": "kv_blocks", "resource": "device", "message": message[:2000]})
    host = _HOST_POOL.search(message)
    if host is not None:
        needed, there = size(host[1], "GB"), size(host[2], "GB")
        fields = {"gate": "host_pool", "resource": "host", "message": message[:2000]}
        if needed is not None and there is not None:
            fields |= {
                "needed_bytes": needed.bytes, "available_bytes": there.bytes,
                "resolution_bytes": max(needed.resolution, there.resolution),
            }  # fmt: skip
        return Fact("refusal", fields)
    if "memory capacity is unbalanced" in message or "The memory capacity is" in message:
        return Fact("refusal", {"gate": "unbalanced_memory", "resource": "device", "message": message[:2000]})
    return None


def _kv_shortage(message: str) -> Iterator[Fact]:
    mode = "decode" if message.lstrip().startswith("Decode") or "Decode out of memory" in message else "prefill"
    fields: dict[str, object] = {
        "resource": "kv_blocks", "api": "engine", "error_type": f"{mode}_out_of_memory", **_available_tokens(message),
    }  # fmt: skip
    wanted = _TRY.search(message)
    if wanted is not None:
        fields["requested_tokens"] = integer(wanted[1])
    yield Fact("oom", fields)


def _available_tokens(message: str) -> dict[str, object]:
    found = _TOKENS.search(message)
    if found is None:
        return {}
    return {"available_tokens": integer(next(group for group in found.groups() if group is not None))}


def _free(record: Record) -> Iterator[Fact]:
    found = _AVAILABLE.search(record.text)
    amount = gib(found[1]) if found is not None else None
    if amount is not None:
        yield Fact("device", {"free_bytes": amount.bytes, "resolution_bytes": amount.resolution})
