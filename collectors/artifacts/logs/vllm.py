"""vLLM's log lines, V0 and V1, 0.6 to 0.33: its header, its life and its arguments.

What it prints of memory is in vllm_memory, what while it serves in vllm_serving.

Source of the formats: vllm/worker/*, vllm/v1/worker/gpu_worker.py, gpu_model_runner.py, v1/core/kv_cache_utils.py,
v1/metrics/loggers.py, logging_utils/dump_input.py of the releases. V0 prints "GB" and divides by 2**30.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs import vllm_dump, vllm_exceptions, vllm_memory, vllm_serving
from oomctl.collectors.artifacts.logs.arguments import arguments
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.record import Record

name = "vllm"
sources = (
    r"vllm/(?:v1|engine|worker|executor|model_executor|entrypoints|distributed|attention|lora|compilation|core|platforms)/"
    r"|vllm_(?:omni|ascend)/"
)
rules = Rules()
rules.include(vllm_memory.rules)
rules.include(vllm_serving.rules)
rules.include(vllm_dump.rules)
exception = vllm_exceptions.exception

HEADER = HeaderPattern(
    engine=name,
    pattern=re.compile(
        r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<ts>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? )?"
        r"(?:\[(?P<logger>[\w./<>-]{1,160}:\d+)\]|(?P<logger0>[\w./-]{1,160}\.py:\d+)\]) ?"
    ),
    anchor=re.compile(r"\w:\d+\]"),
    year=False,
)


@rules.on("vLLM API server version", r"vLLM API server version (\S+)")
def _api_server(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", "API server")
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", match[1].lstrip("v"))


@rules.on("LLM engine (v", r"Initializing an? (V\d )?LLM engine \(v([^)\s]+)\)(?: with config: (.*))?")
def _engine(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("spawned", "engine core")
    yield manifest("engine", "name", name)
    yield manifest("engine", "version", match[2])
    yield from arguments(match[3] or "")


@rules.on("non-default args:", r"non-default args: (\{.*)")
@rules.on("args: Namespace(", r"args: (Namespace\(.*)")
def _arguments(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from arguments(match[1])


@rules.on("max_num_batched_tokens=", r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")
def _batched(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("argument", "max_num_batched_tokens", match[1])


@rules.on("Defaulting max_num_", r"Defaulting (max_num_seqs|max_num_batched_tokens) to (\d+)")
def _defaulting(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("argument", match[1], match[2])


@rules.on(
    "Loaded weight", r"Loaded weight (?:\S*\.)?(lm_head|embed_tokens)\.weight with shape torch\.Size\(\[(\d+), (\d+)\]\)"
)
def _vocabulary(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The rows of the output projection are the vocabulary (padded, of this rank)."""
    yield manifest("model", "vocab_rows" if match[1] == "lm_head" else "embedding_rows", match[2])


@rules.on("rank=", r"world_size=(\d+) rank=(\d+) local_rank=(\d+)")
def _rank(match: re.Match[str], _: Record) -> Iterator[Fact]:
    common = {"rank": integer(match[2]), "device_id": integer(match[3])}
    yield Fact("manifest", {"section": "parallelism", "key": "world_size", "value": match[1]}, common)


@rules.on("in world size", r"rank (\d+) in world size (\d+) is assigned as DP rank (\d+), PP rank (\d+)")
def _assigned(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("manifest", {"section": "parallelism", "key": "world_size", "value": match[2]}, {"rank": integer(match[1])})


@rules.on("Starting to load model")
@rules.on("Loading safetensors checkpoint shards", r"shards: +(?:0|1?\d)% Completed")
@rules.on("Loading weights on")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("Encoder cache will be initialized", r"Encoder cache will be initialized with a budget of .*")
@rules.on("Profiling CUDA graph memory")
def _profiling(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("profiling", match[0])


@rules.on("Processed prompts:", r"Processed prompts: +[1-9]\d{0,2}%")
def _offline(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """The progress of LLM.generate(), which says nothing else of being ready."""
    yield phase("serving", "prompts were processed")


@rules.on("Capturing", r"Capturing (?:CUDA graphs?|cudagraphs for decoding|the model for CUDA graphs)")
@rules.on("[Warmup][", r"\[Warmup\]\[\w+(?:/\w+)?\]\[\d+/\d+\]")
@rules.on("Warming up", r"Warming up (?:FlashInfer|sampler|kernels|.{0,40}kernels)")
def _capturing(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("capturing", match[0])


@rules.on("torch.compile took")
def _compiling(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("compiling", match[0])


@rules.on("init engine (profile")
def _initialised(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("compiling", "init engine done")


@rules.on("EngineCore encountered a fatal error")
@rules.on("EngineCore failed to start")
@rules.on("WorkerProc failed to start")
@rules.on("Engine core initialization failed")
@rules.on("ngine loop is not running", r"\b[Ee]ngine loop is not running")
@rules.on("ngine background task failed", r"\b[Ee]ngine background task failed")
@rules.on("ackground loop has errored", r"\b[Bb]ackground loop has errored")
@rules.on("Engine process failed to start")
@rules.on("ngine is already dead", r"MQLLMEngine is already dead, terminating server process")
@rules.on("process died before", r"process died before (?:responding|it responded).*")
@rules.on("Got fatal signal", r"Got fatal signal from worker processes")
def _dead(match: re.Match[str], record: Record) -> Iterator[Fact]:
    yield Fact("fault", {"code": "engine_dead", "detail": match[0], "fatal": True})
