"""ollama's own lines: its scheduler's estimates and refusals, and the runners that it starts and loses.

Source of the formats: server/sched.go, server/routes.go, llm/server.go, llm/memory.go, ml/backend/ggml/ggml.go.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import size

name = "ollama"
rules = Rules()

HEADERS = (
    HeaderPattern(
        engine="llamacpp",
        pattern=re.compile(
            r"time=(?P<ts>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) "
            r"level=(?P<level>TRACE|DEBUG|INFO|WARN|ERROR) "
            r"source=(?P<logger>[\w./-]+:\d+) "
        ),
        anchor=re.compile(r"level=[A-Z]"),
        year=True,
    ),
)

_S = r"([\d.]+) ([KMGT]?i?B)"


@rules.on("Listening on", r"msg=\"Listening on \S+ \(version ([^)\s]+)\)")
def _server(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", match[1])


@rules.on("starting llama server")
@rules.on("starting runner")
def _runner(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("engine", "name", name)
    yield phase("loading", match[0])


@rules.on("waiting for server to become available", r"waiting for server to become available\" status=\"?([\w ]+)")
def _waiting(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("engine", "name", name)
    if match[1] == "llm server loading model":
        yield phase("loading", match[1])


@rules.on("changing loaded model")
def _changing(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("engine", "name", name)
    yield phase("reloading", match[0])


@rules.on("didn't recover within timeout", r"gpu VRAM usage didn't recover within timeout.*")
def _not_recovered(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("reloading", match[0])


@rules.on("loading cache slot", r"msg=\"loading cache slot\".*\bremaining=(\d+)")
def _prompt(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """What of a prompt is not in the cache of its slot."""
    yield Fact("step", {"mode": "prefill", "prefill_tokens": integer(match[1])})


@rules.on("insufficient memory - required", r"insufficient memory - required allocations: .*")
def _insufficient(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """The new engine prints what it allocated (A) and what it could not (F), by purpose."""
    failed = re.search(r"(Weights|Cache|Graph):\[?(?:\d+[AU] ?){0,500}(\d{1,18})F", match[0])
    told = {"Weights": "weights_buffer", "Cache": "kv_buffer"}.get(failed[1] if failed else "", "compute_buffer")
    fields: dict[str, object] = {
        "resource": "device",
        "api": "engine",
        "error_type": told,
        "message": record.text[:1000],
    }
    if failed is not None:
        fields["requested_bytes"] = integer(failed[2])
    yield Fact("oom", fields)


@rules.on("runner started in", r"llama runner started in [\d.]+ seconds")
def _started(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("ready", match[0])


@rules.on("[GIN]", r"\[GIN\].*\| +200 \|.*POST +\"/(?:api/(?:generate|chat|embed)|v1/)")
def _answered(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("serving", "a request was answered")


@rules.on("[GIN]", r"\[GIN\].*\| +5\d\d \|.*POST +\"/(?:api/(?:generate|chat|embed)|v1/)")
def _failed(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The runner may be gone; the server, which starts another for the next request, is there."""
    yield phase("serving", "a request was answered with an error")


@rules.on("memory.available=", r"memory\.available=\"\[" + _S)
def _available(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """What the scheduler found and what it reckons, before it loads."""
    free = size(match[1], match[2])
    if free is not None:
        yield Fact("device", {"free_bytes": free.bytes, "resolution_bytes": free.resolution})
    for key, component in (("weights.total", "weights"), ("required.kv", "kv_pool"), ("graph.full", "activation")):
        lifetime = "iteration" if component == "activation" else "worker"
        found = re.search(rf"memory\.{re.escape(key)}=\"{_S}", record.text)
        if found is not None:
            yield from memory(component, size(found[1], found[2]), lifetime=lifetime, owner="estimate")


@rules.on("model weights", r"msg=\"model weights\".{0,200}?\b(?:device|buffer)=(\w+) size=\"" + _S)
@rules.on("kv cache", r"msg=\"kv cache\".{0,200}?\b(?:device|buffer)=(\w+) size=\"" + _S)
@rules.on("compute graph", r"msg=\"compute graph\".{0,200}?\b(?:device|backend)=(\w+) .*?size=\"" + _S)
def _allocated(match: re.Match[str], record: Record) -> Iterator[Fact]:
    if match[1].upper().startswith("CPU"):
        return
    component = "weights" if "weights" in record.text else "kv_pool" if "kv cache" in record.text else "activation"
    lifetime = "iteration" if component == "activation" else "worker"
    yield from memory(component, size(match[2], match[3]), lifetime=lifetime, owner="steady")


@rules.on("more system memory", rf"requires more system memory \({_S}\) than is available \({_S}\)")
def _too_large(match: re.Match[str], record: Record) -> Iterator[Fact]:
    needed, available = size(match[1], match[2]), size(match[3], match[4])
    fields: dict[str, object] = {"gate": "system_memory", "resource": "host", "message": record.text[:1000]}
    if needed is not None and available is not None:
        fields |= {
            "needed_bytes": needed.bytes,
            "available_bytes": available.bytes,
            "resolution_bytes": max(needed.resolution, available.resolution),
        }
    yield Fact("refusal", fields)


@rules.on("error loading llama server")
@rules.on("llama runner terminated")
@rules.on("Load failed", r"level=ERROR .*msg=\"Load failed\"")
def _dead(match: re.Match[str], record: Record) -> Iterator[Fact]:
    if "signal: killed" in record.text:
        yield Fact("lifecycle", {"phase": "killed", "signal": 9, "detail": record.text[:500]})
        return
    yield Fact("fault", {"code": "engine_dead", "detail": record.text[:500], "fatal": True})
    if "out of memory" in record.text:
        told = "compute_buffer" if "gallocr" in record.text else "runner"
        fields: dict[str, object] = {
            "resource": "device",
            "api": "engine",
            "error_type": told,
            "message": record.text[:1000],
        }
        wanted = re.search(r"buffer of size (\d{1,18})", record.text)
        if wanted is not None:
            fields["requested_bytes"] = int(wanted[1])
        yield Fact("oom", fields)
