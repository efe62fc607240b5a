"""TensorRT-LLM's log lines, C++ runtime and PyTorch backend, 0.5 to 1.x, also inside Triton.

Source of the formats: cpp/tensorrt_llm/batch_manager/*, cpp/tensorrt_llm/runtime/*, tensorrt_llm/_torch/pyexecutor/*
(py_executor_creator.py prints the component table). "Use .. GB for model weights" divides by 2**30.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, gib, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import size

name = "trtllm"
rules = Rules()

HEADERS = (
    HeaderPattern(
        engine=name,
        pattern=re.compile(
            r"\[(?P<ts>\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] \[TRT-?LLM\] "
            r"(?:\[RANK (?P<global>\d{1,5})\] )?\[(?P<level>[TVDIWEF])\] ?"
        ),
        anchor=re.compile(r"\[TRT-?LLM\]"),
        year=True,
    ),
    HeaderPattern(
        engine=name,
        pattern=re.compile(r"\[TensorRT-LLM\]\[(?P<level>TRACE|VERBOSE|DEBUG|INFO|WARNING|ERROR)\] ?"),
        anchor=re.compile(r"\[TensorRT-LLM\]"),
        year=False,
    ),
)

_COMPONENTS = {
    "execution context memory": ("activation", "iteration"),
    "runtime buffers": ("workspace", "worker"),
    "decoder": ("workspace", "worker"),
}
_TABLE_HEAD = r"^(Total|Free) GPU memory (?:\(GiB\)|before component creation attempt \(GiB\)): ([\d.]+)"
_TABLE_ROW = r"^(%s)(?: \([^)]*\))?: ([\d.]+) / ([\d.]+)$"
_TABLE_NAMES = (
    "Model", "Sampler", "Drafter", "Guided decoder", "KV cache", "Initial KV cache", "Additional executor resources",
    "Model resources created during usage",
)  # fmt: skip
_EXECUTOR = Pattern(r"Executor creation failed due to insufficient GPU memory")
_NO_BLOCKS = Pattern(r"Can't allocate new blocks\. No free blocks left|No free blocks? left")


@rules.on("Engine version", r"Engine version (\S+) found in the config file")
@rules.on("TensorRT-LLM version", r"TensorRT-LLM version:? (\S+)")
def _version(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", match[0])
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", match[1].rstrip(","))


@rules.on("TRTGptModel max", r"TRTGptModel (maxBatchSize|maxNumTokens|maxNumSequences|maxBeamWidth): (\d+)")
def _model(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("argument", match[1], match[2])


@rules.on("Loaded engine size", r"Loaded engine size: ([\d.]+) (MiB|GiB)")
@rules.on("for model weights", r"Use ([\d.]+) (GB|GiB) for model weights")
def _weights(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("weights", size(match[1], match[2], binary=True), owner="steady")
    yield phase("weights_loaded")


@rules.on(
    "[MemUsageChange] Allocated",
    r"Allocated ([\d.]+) (GiB|MiB|GB|MB|KB)(?: GPU memory)? for (?:max tokens in paged KV cache \((\d+)\)|([\w ]+))",
)
def _allocated(match: re.Match[str], _: Record) -> Iterator[Fact]:
    amount = size(match[1], match[2], binary=True)
    if match[3] is not None:
        yield from memory("kv_pool", amount, owner="in_use")
        yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[3])})
        yield phase("kv_allocated")
        return
    component, lifetime = _COMPONENTS.get(match[4].strip(" ."), ("other", "worker"))
    yield from memory(component, amount, lifetime=lifetime, owner=match[4].strip(" .")[:60])


@rules.on("max tokens in paged kv cache", r"total: ([\d.]+) GiB, available: ([\d.]+) GiB")
def _available(match: re.Match[str], _: Record) -> Iterator[Fact]:
    total, free = gib(match[1]), gib(match[2])
    if total is not None and free is not None:
        yield Fact("device", {"total_bytes": total.bytes, "free_bytes": free.bytes, "resolution_bytes": free.resolution})
    yield phase("profiling")


@rules.on("KV cache primary pool", r"Number of blocks in KV cache primary pool: (\d+)")
@rules.on("primary blocks=", r"primary blocks=(\d+)")
def _blocks(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_blocks": integer(match[1])})


@rules.on("tokens per block", r"Number of tokens per block: (\d+)")
def _block_size(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "block_size_tokens": integer(match[1])})


@rules.on("tokens in paged KV cache", r"Using (\d+) tokens in paged KV cache")
def _tokens(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_tokens": integer(match[1])})
    yield phase("kv_allocated")


@rules.on("Autotuning process starts")
@rules.on("CUDA graph warmup", r"(?:Creating|Run(?:ning)?) .{0,40}CUDA graph warmup.*")
def _tuning(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("capturing", match[0])


@rules.on("Started GRPCInferenceService")
@rules.on("Started HTTPService")
@rules.on("Benchmarking: batch_size")
def _serving(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("serving", match[0])


@rules.on("Gathering context logits", r"Gathering context logits for request (\d+) \(prompt length (\d+), vocab (\d+)\)")
def _context_logits(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("step", {"mode": "prefill", "prefill_tokens": integer(match[2]), "logits_positions": integer(match[2])})
    yield manifest("model", "vocab_size", match[3])


@rules.on("max_tokens_in_buffer, allocating", r"request (\d+) needs (\d+) tokens > max_tokens_in_buffer")
def _transfer(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("transfer", {"op": "receive", "peer": f"request {match[1]}", "tokens": integer(match[2])})


@rules.on("creation attempt (GiB): ", _TABLE_HEAD)
@rules.on("Total GPU memory (GiB): ", _TABLE_HEAD)
def _table_head(match: re.Match[str], _: Record) -> Iterator[Fact]:
    amount = gib(match[2])
    if amount is not None:
        field = "total_bytes" if match[1] == "Total" else "free_bytes"
        yield Fact("device", {field: amount.bytes, "resolution_bytes": amount.resolution})


def _table_row(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """A component of the table: free before and after its creation; the difference is what it took."""
    before, after = gib(match[2]), gib(match[3])
    if before is None or after is None:
        return
    component = {"Model": "weights", "KV cache": "kv_pool", "Initial KV cache": "kv_pool"}.get(match[1], "workspace")
    taken = before.bytes - after.bytes
    owner = "steady" if match[1] == "Model" else "in_use" if match[1] == "KV cache" else match[1]
    yield Fact(
        "memory",
        {
            "component": component,
            "lifetime": "worker",
            "owner": owner,
            "bytes": taken,
            "resolution_bytes": before.resolution * 2,
        },
        {"quality": "derived"},
    )


for _name in _TABLE_NAMES:
    rules.on(f"{_name}: ", _TABLE_ROW % _name)(_table_row)
    rules.on(f"{_name} (", _TABLE_ROW % _name)(_table_row)


@rules.on("tx_tokens", r"\"?iter\"? ?[=:] ?(\d+).*?num_?[cC]tx_?[tT]okens\"? ?[=:] ?(\d+)")
def _iteration(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact(
        "step",
        {
            "step_id": integer(match[1]),
            "mode": "prefill" if integer(match[2]) else "decode",
            "prefill_tokens": integer(match[2]),
        },
    )


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """The oom that an exception or error line of TensorRT-LLM is."""
    if _EXECUTOR.search(message):
        fields = {
            "resource": "device",
            "api": "engine",
            "error_type": "executor_creation",
            "message": message[:2000],
            "fatal": True,
        }
        return Fact("oom", fields)
    if _NO_BLOCKS.search(message):
        return Fact(
            "oom", {"resource": "kv_blocks", "api": "engine", "error_type": "no_free_blocks", "message": message[:2000]}
        )
    return None
