"""llama.cpp's log lines: its life and what it prints of memory. Newer builds head them with the time since the start.

Its failures are in llamacpp_failures; ollama, which runs it, in ollama.

Source of the formats: src/llama-model.cpp, llama-kv-cache*.cpp, llama-context.cpp, ggml/src/*, tools/server.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs import llamacpp_failures, ollama
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import size

name = "llamacpp"
sources = r"llama_cpp/|ggml/src/"
rules = Rules()
rules.include(llamacpp_failures.rules)
rules.include(ollama.rules)
HEADERS = (
    *ollama.HEADERS,
    HeaderPattern(
        engine="llamacpp",
        # Minutes, seconds, milli- and microseconds since the start, by llama-server since 2025: no time of a day.
        pattern=re.compile(r"(?<![\d.])\d{1,5}\.\d\d\.\d{3}\.\d{3} (?P<level>[DIWE]) "),
        anchor=re.compile(r"\.\d{3}\.\d{3} [DIWE] "),
        year=False,
    ),
)
exception = llamacpp_failures.exception

_PURPOSES = {
    "model": "weights",
    "KV": "kv_pool",
    "RS": "kv_pool",
    "compute": "activation",
    "output": "logits",
}


@rules.on("build: ", r"\bbuild: (\d+) \(([0-9a-f]+)\) with")
@rules.on("build = ", r"\bbuild = (\d+) \(([0-9a-f]+)\)")
def _build(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", match[0])
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", f"b{match[1]}")


@rules.on("MiB free", r"using device \w+ \(.*\) - (\d+) MiB free")
def _device(match: re.Match[str], _: Record) -> Iterator[Fact]:
    amount = size(match[1], "MiB")
    if amount is not None:
        yield Fact("device", {"free_bytes": amount.bytes, "resolution_bytes": amount.resolution})


@rules.on("n_layer ", r"(?:print_info|llm_load_print_meta): n_layer +(?:\([^)]*\) +)?= (\d+)$")
def _layers(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("model", "n_layer", match[1])


@rules.on("Welcome to KoboldCpp", r"Welcome to KoboldCpp - Version ([\d.]+)")
def _kobold(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """A program around llama.cpp with options of its own."""
    yield phase("spawned", match[0])
    yield manifest("engine", "name", "koboldcpp")
    yield manifest("engine", "version", match[1])


@rules.on("load_tensors:", r"(?:llm_)?load_tensors: (?:loading model tensors|offload|ggml ctx size).*")
@rules.on("llama_model_loader: loaded meta data")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("buffer size =", r"(\w+) (model |KV |compute |output |RS )?buffer size += +([\d.]+) MiB")
def _buffer(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """One line per device and purpose; older versions print weights as plain "buffer size"."""
    component = _PURPOSES[(match[2] or "model ").strip()]
    if match[1].upper().startswith("CPU") or "HOST" in match[1].upper():
        return
    lifetime = "iteration" if component in ("activation", "logits") else "worker"
    yield from memory(component, size(match[3], "MiB"), lifetime=lifetime, owner="steady")
    yield phase({"weights": "weights_loaded", "kv_pool": "kv_allocated"}.get(component, "profiling"))


@rules.on("n_ctx ", r"n_ctx +(?:\([^)]*\) +)?= (\d+)")
def _context(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """Printed when the context is made, which begins with its KV cache: the weights are there."""
    yield manifest("argument", "n_ctx", match[1])
    yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[1])})
    yield phase("weights_loaded", match[0])


@rules.on("server listening")
@rules.on("server is listening on")
def _listening(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("ready", match[0])


@rules.on("sleeping state", r"server is (entering|exiting) sleeping state")
def _sleep(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("sleeping" if match[1] == "entering" else "waking", match[0])


@rules.on("is processing", r"slot +\d+ is processing|is processing task")
@rules.on("launch_slot_", r"launch_slot_.{0,60}processing task")
def _processing(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("serving", "a slot is processing")


@rules.on(
    "prompt processing progress", r"prompt processing progress, n_(?:past|tokens) = \d+, (?:batch\.)?n_tokens = (\d+)"
)
@rules.on("n_prompt_tokens = ", r"new prompt, .*\bn_prompt_tokens = (\d+)")
@rules.on("task.n_tokens = ", r"new prompt, .*\btask\.n_tokens = (\d+)")
def _prompt(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The prompt that a slot is to compute, or the part of it in the next batch."""
    yield Fact("step", {"mode": "prefill", "prefill_tokens": integer(match[1])})


@rules.on("eval time =", r"prompt eval time = +[\d.]+ ms / +(\d+) tokens")
def _computed(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """A prompt is done; what follows are single tokens."""
    yield Fact("step", {"mode": "decode", "prefill_tokens": 0})
