"""Text Generation Inference: the Rust router's and the launcher's lines, 0.9 to 3.x.

Source of the formats: router/src/main.rs and server.rs, backends/v3, launcher/src/main.rs, server/text_generation_server.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.arguments import arguments
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record

name = "tgi"
sources = r"text_generation_server/"
rules = Rules()

HEADERS = (
    HeaderPattern(
        engine=name,
        pattern=re.compile(
            r"(?P<ts>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z) +(?P<level>TRACE|DEBUG|INFO|WARN|ERROR) "
            r"(?=\S.{0,4000}?text_generation|text_generation)"
        ),
        anchor=re.compile(r"text_generation"),
        year=True,
    ),
)

_BLOCKS = Pattern(r"Out of available cache blocks: asked (\d+), only (\d+) free blocks")
_NOT_ENOUGH = Pattern(r"[Nn]ot enough memory to handle (?:batch|(\d+) (?:prefill|total) tokens)")
"""The shard catches the allocation that failed in its warm-up and says what it was for."""
_CANNOT_HOLD = Pattern(r"\bNotEnoughMemory\((\d+)\)|[Nn]ot enough memory to handle `max_total_tokens=(\d+)`")


@rules.on("text_generation_launcher: Args", r"Args \{(.*)")
def _args(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", "launcher")
    yield manifest("engine", "name", name)
    yield from arguments(match[1].replace(": ", "="))


@rules.on("Waiting for shard to be ready")
@rules.on("Starting shard", r"Starting shard \d*")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("Shard ready in")
def _ready_shard(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("weights_loaded", match[0])


@rules.on("Warming up model")
def _warming(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("profiling", match[0])


@rules.on("max batch total tokens", r"Setting max batch total tokens to (\d+)")
@rules.on("KV-cache blocks:", r"KV-cache blocks: (\d+), size: (\d+)")
def _total(match: re.Match[str], _: Record) -> Iterator[Fact]:
    if match.re.groups == 2:
        blocks, block = integer(match[1]), integer(match[2])
        yield Fact(
            "kv_pool",
            {"tier": "device", "total_blocks": blocks, "block_size_tokens": block, "total_tokens": blocks * block},
        )
    else:
        yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[1])})
    yield phase("kv_allocated")


@rules.on(": Connected", r": Connected$")
def _connected(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("ready", "router connected")


@rules.on(": Success", r": Success$")
def _success(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("serving", "a request succeeded")


@rules.on("Server error: ", r"\b(prefill|decode)\{[^}]{0,200}\}: .{0,300}Server error: (?!Out of available)")
def _call(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The router's client says in which call the shard failed."""
    yield Fact("step", {"mode": match[1], "dumped": True})


@rules.on("Method ", r"Method (Warmup|Prefill|Decode) encountered an error")
def _method(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """The launcher says which call of the shard failed, before the traceback."""
    if match[1] == "Warmup":
        yield phase("profiling", match[0])
    else:
        yield Fact("step", {"mode": match[1].lower(), "dumped": True})


@rules.on("Out of available cache blocks", r"Out of available cache blocks: asked (\d+), only (\d+) free blocks")
def _blocks(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """A request was turned down; the server goes on."""
    yield _no_blocks(record.text, fatal=False)


@rules.on("Shard process was signaled to shutdown", r"shutdown with signal (\d+)")
def _signaled(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield Fact("lifecycle", {"phase": "killed", "signal": integer(match[1]), "detail": match[0]})


@rules.on("ShardCannotStart")
@rules.on("WebserverFailed")
@rules.on("Shutting down shards")
@rules.on("Webserver Crashed")
@rules.on("WebserverCrashed")
@rules.on("Error: ", r"^Error: (?:Backend|Warmup|WebServer|Http|Tokio|NotEnoughMemory)\(")
def _down(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("lifecycle", {"phase": "stopped", "detail": match[0]})


@rules.on("failed to start", r"Shard \d+ failed to start")
@rules.on(" crashed", r"Shard \d+ crashed")
def _crashed(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("fault", {"code": "engine_dead", "detail": match[0], "fatal": True})


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """The oom or refusal that an exception of TGI is."""
    if _BLOCKS.search(message):
        return _no_blocks(message, fatal=None)
    if _NOT_ENOUGH.search(message):
        fields = {"resource": "device", "api": "engine", "error_type": "warm_up_batch", "message": message[:2000]}
        tokens = _NOT_ENOUGH.search(message)
        return Fact("oom", {**fields, "requested_tokens": integer(tokens[1])} if tokens and tokens[1] else fields)
    needed = _CANNOT_HOLD.search(message)
    if needed is not None:
        fields = {"gate": "kv_fits_request", "resource": "kv_blocks", "message": message[:2000]}
        return Fact("refusal", {**fields, "needed_tokens": integer(needed[1] or needed[2])})
    return None


def _no_blocks(text: str, fatal: bool | None) -> Fact:
    fields = {"resource": "kv_blocks", "api": "engine", "error_type": "cache_blocks", "requests": 1, "message": text[:1000]}
    return Fact("oom", {**fields, "fatal": fatal} if fatal is not None else fields)
