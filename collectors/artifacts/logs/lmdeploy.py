"""LMDeploy's log lines, TurboMind and PyTorch engines.

Source of the formats: lmdeploy/turbomind/turbomind.py, src/turbomind/*, lmdeploy/pytorch/engine/*.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.fact import Fact, Rules, integer, manifest, memory, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import size

name = "lmdeploy"
rules = Rules()

HEADERS = (
    HeaderPattern(
        engine=name,
        pattern=re.compile(
            r"(?:\d{4}-)?(?P<ts>\d\d[/-]\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) - lmdeploy - "
            r"(?:\S+ - )?(?P<level>DEBUG|INFO|WARNING|ERROR)"
            r"(?: - (?P<logger>[\w./]+:\d+))? - "
        ),
        anchor=re.compile(r"- lmdeploy -"),
        year=False,
    ),
    HeaderPattern(
        engine=name,
        pattern=re.compile(r"\[TM\]\[(?P<level>DEBUG|INFO|WARNING|ERROR|FATAL)\] ?"),
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


@rules.on("turbomind", r"loading from workspace|from_pretrained|turbomind backend config|TurbomindEngineConfig\(")
def _start(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("engine", "name", name)


def _config(match: re.Match[str], _: Record) -> Iterator[Fact]:
    """TurboMind prints its config.ini."""
    yield manifest("model" if match[1] == "vocab_size" else "argument", match[1], match[2])


for _key in _ARGUMENTS:
    rules.on(f"{_key} = ", rf"^({_key}) = (\S+)$")(_config)


@rules.on("Convert to turbomind format")
@rules.on("Loading weights by")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("max_context_token_num", r"\[LlamaTritonModel\] `?max_context_token_num`? = (\d+)")
def _triton_model(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield manifest("argument", "max_context_token_num", match[1])
    yield phase("weights_loaded", "model created")


@rules.on("Object cache budget", r"Object cache budget: ([\d.]+) MB from free ([\d.]+) MB")
def _budget(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield from memory("kv_pool", size(match[1], "MB", binary=True), owner="available")
    yield phase("kv_allocated")


@rules.on("[BlockManager]", r"\[BlockManager\] (?:max_)?block_count = (\d+)")
def _blocks(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("kv_pool", {"tier": "device", "total_blocks": integer(match[1])})
    yield phase("kv_allocated")


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
    """The refusal that an exception of LMDeploy is; its device errors are the framework's or CUDA's own."""
    if "No enough gpu memory for runtime" in message or "Not enough gpu memory for kv cache" in message.replace(
        "No enough", "Not enough"
    ):
        return Fact("refusal", {"gate": "kv_blocks", "resource": "device", "message": message[:2000]})
    return None
