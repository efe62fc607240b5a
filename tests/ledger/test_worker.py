"""The ledger of real workers on a CPU: what vLLM 0.32 and SGLang printed of a tiny Llama, predicted to the digit."""

import re
from pathlib import Path
from typing import Any

import pytest

from oomctl.analyzers.ledger import Engine, predict
from oomctl.analyzers.ledger.arguments import parse_engine
from oomctl.analyzers.ledger.config import from_mapping
from oomctl.analyzers.ledger.sglang import kv_pool_bytes
from oomctl.schemas.ledger import GIB, Ledger
from tests.shared import SHARED, shared

TINY: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
RUNS = SHARED / "data" / "engine"
LOGS = [*sorted(RUNS.glob("[!s]*/server.log")), RUNS / "server5_compiled_warm.log"]
OPTIONS = ("max_model_len", "block_size", "num_gpu_blocks_override", "kv_cache_memory_bytes", "max_num_seqs")


def started(log: str) -> Ledger:
    """The ledger of the command line that a log tells."""
    shown = re.search(r"non-default args: (\{.*)", log)
    assert shown is not None
    line = []
    for name in OPTIONS:
        found = re.search(rf"'{name}': ([^,}}]+)", shown[1])
        if found is not None:
            line.append(f"--{name} {found[1]}")
    engine, _ = parse_engine("vllm==0.32.0", "vllm serve tiny-llama " + " ".join(line).replace("_", "-"))
    return predict(from_mapping(TINY, "tiny-llama"), engine)


def read(path: Path) -> str:
    return shared(*path.relative_to(SHARED).parts).read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_blocks_tokens_and_concurrency(path: Path) -> None:
    log = read(path)
    printed = re.search(r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens .*: ([\d.]+)x", log)
    ledger = started(log)
    assert ledger.pool is not None
    if printed is None:
        longest = re.search(r"estimated maximum model length is (\d+)", log)
        assert longest is not None, "the engine says why it did not start"
        assert not ledger.pool.starts
        # It leaves the null block out.
        assert (ledger.pool.blocks - 1) * ledger.kv[0].groups[0].block_tokens == int(longest[1])
        return
    tokens, length, times = printed.groups()
    assert (ledger.pool.tokens, ledger.max_model_len) == (int(tokens.replace(",", "")), int(length.replace(",", "")))
    assert f"{ledger.pool.max_concurrency:.2f}" == times
    assert ledger.pool.starts


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_the_pool_before_it_is_overridden(path: Path) -> None:
    log = read(path)
    overridden = re.search(r"Overriding num_gpu_blocks=(\d+)", log)
    size = re.search(r"(?:Explicitly|Auto) set \(([\d.]+)/[\d.]+\) GiB for KV cache", log)
    assert size is not None
    ledger = started(log)
    if overridden is None:
        assert f"{(ledger.total('kv_pool') or 0) / GIB:.1f}" == size[1]
        return
    decimals = 10 ** -len(size[1].partition(".")[2]) / 2 if "Auto" in size[0] else 0.0
    per_block = ledger.kv[0].bytes_per_block
    low, high = (round((float(size[1]) + side) * GIB) // per_block for side in (-decimals, decimals))
    assert low <= int(overridden[1]) <= high


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_the_weights(path: Path) -> None:
    log = read(path)
    ledger = started(log)
    checkpoint = re.search(r"Checkpoint size: ([\d.]+) GiB", log)
    assert checkpoint is not None
    assert f"{ledger.summary.raw_weight_gib:.2f}" == checkpoint[1]
    owners = {entry.owner: entry.bytes for entry in ledger.entries if entry.component == "weights"}
    for name, owner in (("embed_tokens", "embedding"), ("lm_head", "head")):
        shape = re.search(rf"Loaded weight \S*{name}\.weight with shape torch\.Size\(\[(\d+), (\d+)\]\)", log)
        if shape is not None:
            assert owners[owner] == int(shape[1]) * int(shape[2]) * 2


def test_sglangs_pool() -> None:
    log = read(SHARED / "data" / "engine" / "sglang" / "server.log")
    printed = re.search(r"KV Cache is allocated\..* #tokens: (\d+), K size: ([\d.]+) GB, V size: ([\d.]+) GB", log)
    assert printed is not None
    size = kv_pool_bytes(from_mapping(TINY, "tiny-llama"), Engine(name="sglang", version=(0, 5)), int(printed[1]))
    assert f"{size / 2 / GIB:.2f}" == printed[2] == printed[3]
