"""llama.cpp's log lines, and those of ollama, which runs it. They carry no header of their own.

Source of the formats: src/llama-model.cpp, llama-kv-cache.cpp, llama-context.cpp, ggml/src/ggml-cuda, tools/server;
ollama's server/sched.go and server/routes.go.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import size

name = "llamacpp"
rules = Rules()

HEADERS = (
    HeaderPattern(
        engine=name,
        pattern=re.compile(
            r"time=(?P<ts>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) "
            r"level=(?P<level>DEBUG|INFO|WARN|ERROR) "
            r"source=(?P<logger>[\w./-]+:\d+) "
        ),
        anchor=re.compile(r"level=[A-Z]"),
        year=True,
    ),
)


@rules.on("build: ", r"^build: (\d+) \(([0-9a-f]+)\) with")
def _build(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", match[0])
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", f"b{match[1]}")


@rules.on("changing loaded model")
def _changing(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("engine", "name", "ollama")
    yield phase("reloading", match[0])


@rules.on("didn't recover within timeout", r"gpu VRAM usage didn't recover within timeout.*")
def _not_recovered(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("reloading", match[0])


@rules.on("MiB free", r"using device \w+ \(.*\) - (\d+) MiB free")
def _device(match: re.Match[str], _: Record) -> Iterator[Fact]:
    amount = size(match[1], "MiB")
    if amount is not None:
        yield Fact("device", {"free_bytes": amount.bytes, "resolution_bytes": amount.resolution})


@rules.on("load_tensors:", r"(?:llm_)?load_tensors: (?:loading model tensors|offload).*")
@rules.on("llama_model_loader: loaded meta data")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("buffer size =", r"(\w+) (model |KV |compute |output |RS )?buffer size = +([\d.]+) MiB")
def _buffer(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """One line per device and purpose; older versions print weights as plain "buffer size"."""
    purpose = (match[2] or "model ").strip()
    component = {"model": "weights", "KV": "kv_pool", "RS": "kv_pool", "compute": "activation", "output": "logits"}[purpose]
    if match[1].upper().startswith("CPU") or "HOST" in match[1].upper():
        return
    lifetime = "iteration" if component in ("activation", "logits") else "worker"
    yield from memory(component, size(match[3], "MiB"), lifetime=lifetime, owner="steady")
    yield phase({"weights": "weights_loaded", "kv_pool": "kv_allocated"}.get(component, "profiling"))


@rules.on("n_ctx ", r"n_ctx +(?:\([^)]*\) +)?= (\d+)")
def _context(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("argument", "n_ctx", match[1])
    yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[1])})


@rules.on("server listening")
@rules.on("server is listening on")
def _listening(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("ready", match[0])


@rules.on("is processing", r"slot +\d+ is processing|is processing task")
@rules.on("launch_slot_", r"launch_slot_.{0,60}processing task")
def _processing(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("serving", "a slot is processing")


@rules.on(
    "failed: out of memory", r"allocating ([\d.]+) MiB on device (\d+): (?:cuda|hip|musa)Malloc failed: out of memory"
)
def _malloc(match: re.Match[str], record: Record) -> Iterator[Fact]:
    amount = size(match[1], "MiB")
    fields: dict[str, object] = {
        "resource": "device",
        "api": "cuda",
        "error_type": "cudaMalloc",
        "message": record.text[:1000],
    }
    if amount is not None:
        fields |= {"requested_bytes": amount.bytes, "resolution_bytes": amount.resolution}
    yield Fact("oom", fields, {"device_id": integer(match[2])})


@rules.on(
    "failed to find free space in the KV cache", r"retrying with smaller (?:n_batch|batch size)[ =:,]+(?:n_batch = )?(\d+)"
)
def _no_cells(match: re.Match[str], record: Record) -> Iterator[Fact]:
    fields = {
        "resource": "kv_blocks",
        "api": "engine",
        "error_type": "no_kv_cells",
        "fatal": False,
        "message": record.text[:1000],
    }
    yield Fact("oom", {**fields, "requested_tokens": integer(match[1])})


@rules.on("failed to decode the batch", r"failed to decode the batch.*n_batch = (\d+)")
def _not_decoded(match: re.Match[str], record: Record) -> Iterator[Fact]:
    fields = {"resource": "kv_blocks", "api": "engine", "error_type": "no_kv_cells", "message": record.text[:1000]}
    yield Fact("oom", {**fields, "requested_tokens": integer(match[1])})


@rules.on("failed to load model", r"(?:load_model|from_file_impl|from_params): failed to load model")
def _not_loaded(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("fault", {"code": "engine_dead", "detail": match[0], "fatal": True})


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """llama.cpp throws nothing that is not CUDA's own."""
    return None
