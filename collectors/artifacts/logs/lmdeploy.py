"""LMDeploy's log lines, TurboMind and PyTorch engines, 0.1 to 0.9.

Source of the formats: lmdeploy/turbomind/turbomind.py, src/turbomind/* (its lines gained a stamp and a place in 0.9),
lmdeploy/pytorch/engine/*, lmdeploy/serve/async_engine.py.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.arguments import arguments
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import size

name = "lmdeploy"
sources = r"lmdeploy/(?:pytorch|turbomind|serve|vl|lib|src)/|turbomind(?:/|::)"
rules = Rules()

HEADERS = (
    HeaderPattern(
        engine=name,
        pattern=re.compile(
            r"(?:\d{4}-)?(?P<ts>\d\d[/-]\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) - (?:lmdeploy|turbomind) - "
            r"(?:\S+ - )?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)"
            r"(?: - (?P<logger>[\w./]+:\d+))? - "
        ),
        anchor=re.compile(r"- (?:lmdeploy|turbomind) -"),
        year=False,
    ),
    HeaderPattern(
        engine=name,
        # Behind "RuntimeError: " it belongs to a message that somebody else prints.
        pattern=re.compile(
            r"(?<![A-Za-z)]: )\[TM\]\[(?P<level>DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\]"
            r"(?:\[\d{4}\.\d\d:\d\d:\d\d\.\d{1,6}\]\[(?P<logger>[\w./]{1,80}:\d+)\])? ?"
        ),
        anchor=re.compile(r"\[TM\]"),
        year=False,
    ),
)

_ARGUMENTS = (
    "session_len",
    "max_batch_size",
    "cache_max_entry_count",
    "cache_block_seq_len",
    "vocab_size",
    "kv_head_num",
    "num_layer",
)
_NO_BLOCKS = Pattern(r"No enough (?:free )?(?:memory )?blocks|[Nn]ot enough (?:free )?(?:memory )?blocks")
_NO_MEMORY = Pattern(r"No(?:t)? enough (?:gpu )?memory for (?:runtime|kv ?cache|caching)", re.I)
_ERROR = Pattern(r"(?:\[TM\]\[(?:ERROR|FATAL)\].{0,60}?)?CUDA (?:runtime )?error: out of memory(?: (\S+?):\d+)?")


@rules.on("input backend=", r"input backend=\w+, backend_config=\w+\((.*)")
@rules.on("EngineConfig(", r"^(?:Turbomind|Pytorch)EngineConfig\((.*)")
def _start(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", "engine config")
    yield manifest("engine", "name", name)
    yield from arguments(match[1])


@rules.on("turbomind", r"loading from workspace|turbomind backend config")
def _named(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("engine", "name", name)


def _config(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """TurboMind prints its config.ini."""
    yield manifest("model" if match[1] == "vocab_size" else "argument", match[1], match[2])


for _key in _ARGUMENTS:
    rules.on(f"{_key} = ", rf"^({_key}) = (\S+)$")(_config)


@rules.on("Convert to turbomind format", r"Convert to turbomind format: +(?:\d|[1-9]\d)%")
@rules.on("Loading weights", r"Loading weights (?:by|from) ?\S*(?:: +(?:\d|[1-9]\d)%)?")
@rules.on("Building Model")
@rules.on("model params", r"get \d+ model params")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("Convert to turbomind format: 100%")
@rules.on("gemm_config.in is not found")
@rules.on("Updating configs")
@rules.on("Building GraphRunner")
@rules.on("Building CacheEngine")
def _loaded(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """What comes after the weights."""
    yield phase("weights_loaded", match[0])


@rules.on("Warming up model")
@rules.on("Tuning sequence", r"\[Gemm2?\] Tuning sequence")
def _warming(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("profiling", match[0])


@rules.on("max_context_token_num", r"`?max_context_token_num`?(?: = (\d+)| is not set, default to (\d+))")
def _tokens(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """Printed as the model is made, before its weights are there."""
    yield manifest("argument", "max_context_token_num", match[1] or match[2])
    yield phase("loading", match[0])


@rules.on("Object cache budget", r"Object cache budget: ([\d.]+) MB from free ([\d.]+) MB")
def _budget(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("kv_pool", size(match[1], "MB", binary=True), owner="available")
    yield phase("kv_allocated")


@rules.on("[BlockManager]", r"\[BlockManager\] (?:max_)?block_count = (\d+)")
@rules.on("num_gpu_blocks=", r"CacheConfig\(.*?\bnum_gpu_blocks=(\d+)")
def _blocks(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_blocks": integer(match[1])})
    yield phase("kv_allocated")


@rules.on("dc_bsz", r"dc_bsz ?= ?(\d+), pf_bsz ?= ?(\d+), n_tok ?= ?(\d+)")
@rules.on("dc=", r"\[Forward\].*\bdc ?= ?(\d+), pf ?= ?(\d+), sum_q ?= ?(\d+)")
def _forward(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """One step of TurboMind: sequences that decode, sequences in their prefill, tokens of all."""
    decoding, prefilling, tokens = (integer(match[index]) for index in (1, 2, 3))
    prefill = max(tokens - decoding, 0) if prefilling else 0
    mode = "mixed" if prefill and decoding else "prefill" if prefill else "decode"
    fields = {"mode": mode, "prefill_tokens": prefill, "decode_tokens": decoding}
    yield Fact("step", {**fields, "running_requests": decoding + prefilling})


@rules.on("input_tokens=", r"session=\d+, .*?\binput_tokens=(\d+)")
def _session(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """A prompt that the server hands to the engine, which computes it next."""
    yield Fact("step", {"mode": "prompt", "prefill_tokens": integer(match[1])})


@rules.on("Maybe cache is full", r"free gpu cache blocks: (\d+), total gpu cache blocks: (\d+)")
def _full(match: re.Match[str], record: Record) -> Iterator[Fact]:
    free, total = integer(match[1]), integer(match[2])
    yield Fact(
        "kv_pool",
        {"tier": "device", "total_blocks": total, "free_blocks": free, "usage_ratio": 1 - free / total if total else None},
    )
    fields = {
        "resource": "kv_blocks",
        "api": "engine",
        "error_type": "preemption",
        "fatal": False,
        "message": record.text[:1000],
    }
    yield Fact("oom", fields)


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """The oom or refusal that an exception of LMDeploy is; other device errors are the framework's or CUDA's own."""
    if _NO_MEMORY.search(message):
        return Fact("refusal", {"gate": "kv_blocks", "resource": "device", "message": message[:2000]})
    if _NO_BLOCKS.search(message):
        return Fact(
            "oom", {"resource": "kv_blocks", "api": "engine", "error_type": "no_free_blocks", "message": message[:2000]}
        )
    failed = _ERROR.search(message)
    if failed is not None and "memory_utils" in (failed[1] or ""):
        # TurboMind's deviceMalloc, which its weights are allocated with; buffers and the cache come from its allocators.
        fields = {"resource": "device", "api": "cuda", "error_type": "weights_buffer", "message": message[:2000]}
        return Fact("oom", fields)
    return None
