"""TensorRT-LLM's log lines, C++ runtime and PyTorch backend, 0.5 to 1.x: headers, the life of a worker, its errors.

What it prints of memory is in trtllm_memory, what while it serves in trtllm_serving; Triton's own lines are in triton.

Source of the formats: cpp/tensorrt_llm/batch_manager/*, cpp/tensorrt_llm/runtime/*, tensorrt_llm/_torch/pyexecutor/*,
tensorrt_llm/executor/*, and TensorRT's own messages, which it passes on.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs import torch_message, trtllm_memory, trtllm_serving
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record

name = "trtllm"
sources = r"tensorrt_llm(?:/|::)"
rules = Rules()
rules.include(trtllm_memory.rules)
rules.include(trtllm_serving.rules)

HEADERS = (
    HeaderPattern(
        engine=name,
        pattern=re.compile(
            r"(?:\[(?P<ts>\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] )?\[TRT-?LLM\] (?:\[RANK (?P<global>\d{1,5})\] )?"
            r"\[(?P<level>[TVDIWEF])\] ?(?:\[_\w{1,20}\])?(?:\[RANK (?P<global0>\d{1,5})\] ?)?"
        ),
        anchor=re.compile(r"\[TRT-?LLM\]"),
        year=True,
    ),
    HeaderPattern(
        engine=name,
        # Behind "RuntimeError: " or "modelInstanceState: " it belongs to a message that somebody else prints.
        pattern=re.compile(r"(?<![A-Za-z]: )\[TensorRT-LLM\]\[(?P<level>TRACE|VERBOSE|DEBUG|INFO|WARNING|ERROR)\] ?"),
        anchor=re.compile(r"\[TensorRT-LLM\]"),
        year=False,
    ),
)

_EXECUTOR = Pattern(r"Executor creation failed due to insufficient GPU memory")
_NO_BLOCKS = Pattern(r"Can't allocate new blocks|[Nn]o free blocks? (?:left|found)|hasFreeBlocks\(|\bOutOfPagesError\b")
_NO_SEQUENCE = Pattern(
    r"impossible to fit (?:in )?any sequence in (?:the )?kv ?cache"
    r"|KvCache\w* ?\((?P<available>\d+)\) must be large enough to process at least \w+ sequence",
    re.I,
)
_ENGINE = Pattern(
    r"[Dd]eserializ\w*(?:\.cpp|CudaEngine)\b.{0,200}?OutOfMemory|OutOfMemory.{0,200}?[Dd]eserializ\w*(?:\.cpp|CudaEngine)"
)
_TENSORRT = Pattern(
    r"Error Code \d+: (?:Cuda Runtime \(out of memory\)|OutOfMemory)|Cuda Error in allocate: 2 \(out of memory\)"
)
_FAILED = Pattern(r"Assertion failed: [^\n]*")
_SIZE = Pattern(r"Requested size was (\d+) bytes|GPU memory \((\d+) bytes\) could not be allocated")


@rules.on("Engine version", r"Engine version (\S+) found in the config file")
@rules.on("TensorRT-LLM version", r"TensorRT-LLM version:? (\S+)")
def _version(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", match[0])
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", match[1].rstrip(","))


@rules.on("TRTGptModel max", r"TRTGptModel (maxBatchSize|maxNumTokens|maxNumSequences|maxBeamWidth): (\d+)")
def _model(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("argument", match[1], match[2])


@rules.on("weights in parallel", r"(?:Loading|Prefetching) \S{1,20} ?weights in parallel|Loading weights in parallel")
@rules.on("weights concurrently", r"Loading weights concurrently")
@rules.on("Prefetching", r"Prefetching [\d.]+ ?GB checkpoint files")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("Autotuning process starts")
@rules.on("CUDA graph", r"(?:Creating|Run(?:ning)?|Capturing) .{0,40}(?:CUDA graph (?:warmup|instances)|CUDA graphs for).*")
def _tuning(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("capturing", match[0])


@rules.on("memory with tags", r"(Releasing|Resuming) memory with tags")
def _virtual_memory(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("sleeping" if match[1] == "Releasing" else "waking", match[0])


@rules.on("Benchmarking: batch_size")
def _serving(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("serving", match[0])


@rules.on("Executor worker died", r"Executor worker died during initialization")
@rules.on("initiating shutdown", r"[Ff]atal error.{0,60}initiating shutdown")
@rules.on("MPI_ABORT was invoked")
def _dead(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("fault", {"code": "engine_dead", "detail": match[0], "fatal": True})


@rules.on("could not be allocated", r"Requested amount of GPU memory \((\d+) bytes\) could not be allocated")
def _not_allocated(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """TensorRT's allocator says how much it was asked for, before or after the error that names the place."""
    yield _oom("tensorrt", record.text, size=match[1])


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """The oom or refusal that an exception or error line of TensorRT-LLM is."""
    if _EXECUTOR.search(message):
        return _oom("executor_creation", message, fatal=True)
    if _NO_BLOCKS.search(message) or error_type.endswith("OutOfPagesError"):
        return Fact(
            "oom", {"resource": "kv_blocks", "api": "engine", "error_type": "no_free_blocks", "message": message[:2000]}
        )
    if (gate := _NO_SEQUENCE.search(message)) is not None:
        fields: dict[str, object] = {"gate": "kv_fits_request", "resource": "kv_blocks", "message": message[:2000]}
        if gate["available"]:
            fields["available_tokens"] = integer(gate["available"])
        return Fact("refusal", fields)
    if _TENSORRT.search(message):
        size = _SIZE.search(message)
        told = "engine_deserialization" if _ENGINE.search(message) else "tensorrt"
        return _oom(told, message, size=(size[1] or size[2]) if size is not None else None)
    failed = _FAILED.search(message)
    if failed is not None and not torch_message.looks_like(message) and "emory" not in message:
        return Fact("fault", {"code": "exception", "detail": failed[0][:1000]})
    return None


def _oom(error_type: str, message: str, *, size: str | None = None, fatal: bool | None = None) -> Fact:
    fields: dict[str, object] = {
        "resource": "device",
        "api": "engine",
        "error_type": error_type,
        "message": message[:2000],
    }
    if size is not None:
        fields["requested_bytes"] = integer(size)
    if fatal is not None:
        fields["fatal"] = fatal
    return Fact("oom", fields)
