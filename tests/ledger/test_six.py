"""The six configurations of docs/ledger.md: what stands there is what is predicted, and agrees with plain arithmetic."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oomctl.analyzers.ledger import Engine, ModelShape, predict
from oomctl.schemas.ledger import GIB, KvLayout, Ledger
from tests.shared import shared
from tests.working_tree import ROOT

Config = dict[str, int]


def grouped(config: Config, layers: int) -> int:
    return 2 * layers * config["num_key_value_heads"] * config["head_dim"] * 2


def delta_state(config: Config) -> int:
    """Bytes of one request in one layer of a gated delta net: convolution in bf16, state in fp32."""
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    return (2 * keys + values) * (config["linear_conv_kernel_dim"] - 1) * 2 + values * config["linear_key_head_dim"] * 4


def mamba_state(config: Config) -> int:
    inner = config["mamba_num_heads"] * config["mamba_head_dim"]
    channels = inner + 2 * config["n_groups"] * config["ssm_state_size"]
    return channels * (config["conv_kernel"] - 1) * 2 + inner * config["ssm_state_size"] * 4


def experts(config: Config, count: str, matrices: int, layers: int) -> int:
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    return layers * config[count] * matrices * width * config["hidden_size"]


# Model: its config, bytes of one more token, state of a request in one recurrent layer, weights of its routed experts.
Arithmetic = tuple[str, Callable[[Config], int], Callable[[Config], int] | None, Callable[[Config], int] | None]
SIX: dict[str, Arithmetic] = {
    "Llama-3.1-8B": ("blis--llama-3.1-8b-instruct", lambda c: 2 * 32 * 8 * 128 * 2, None, None),
    "Qwen3-30B-A3B": (
        "Qwen--Qwen3-30B-A3B", lambda c: grouped(c, 48), None, lambda c: 2 * experts(c, "num_experts", 3, 48),
    ),
    "DeepSeek-V3": (
        "deepseek-ai--DeepSeek-V3", lambda c: 61 * (c["kv_lora_rank"] + c["qk_rope_head_dim"]) * 2, None,
        lambda c: experts(c, "n_routed_experts", 3, 58) * (128**2 + 4) // 128**2,
    ),
    "gpt-oss-20b": (
        "openai--gpt-oss-20b", lambda c: grouped(c, 12), None,
        # Half a byte and a scale per 32 weights, on dimensions that the kernel's layout pads; biases in fp32.
        lambda c: 24 * 32 * ((5888 + 2880) * 3072 // 2 + (5888 * 2944 + 3072 * 2944) // 32 + (5888 + 2880) * 4),
    ),
    "Qwen3.5-35B-A3B": (
        "Qwen--Qwen3.5-35B-A3B", lambda c: grouped(c, 10), delta_state, lambda c: 2 * experts(c, "num_experts", 3, 40),
    ),
    "Nemotron-3-Nano-30B-A3B": (
        "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", lambda c: grouped(c, 6), mamba_state,
        lambda c: 2 * experts(c, "n_routed_experts", 2, 23),
    ),
}  # fmt: skip


def predicted(name: str) -> tuple[Config, Ledger]:
    path: Path = shared("data", "ledger", "configs", f"{SIX[name][0]}_config.json")
    config: Any = json.loads(path.read_text())
    return config.get("text_config", config), predict(ModelShape.from_config(path), Engine())


def in_docs(name: str) -> list[str]:
    text = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def state_blocks(kv: KvLayout) -> set[int]:
    return {group.block_tokens for group in kv.groups}


@pytest.mark.parametrize("name", SIX)
def test_the_docs_say_what_is_predicted(name: str) -> None:
    _, ledger = predicted(name)
    disk, weights, token, block = in_docs(name)[:4]
    assert disk == f"{ledger.summary.raw_weight_gib:.2f}"
    assert weights == f"{(ledger.total('weights') or 0) / GIB:.2f}"
    assert token == f"{ledger.kv[0].bytes_per_token / 2**10:g}"
    assert block == str(ledger.kv[0].groups[0].block_tokens)


@pytest.mark.parametrize("name", SIX)
def test_plain_arithmetic_agrees(name: str) -> None:
    _, per_token, state, routed = SIX[name]
    config, ledger = predicted(name)
    assert ledger.kv[0].bytes_per_token == per_token(config)
    if state is not None:
        # The attention block grows in steps of 16 until one layer's page holds a state.
        row = 2 * config["num_key_value_heads"] * config["head_dim"] * 2
        assert state_blocks(ledger.kv[0]) == {16 * -(-state(config) // (16 * row))}
    if routed is not None:
        held = next(entry.bytes for entry in ledger.entries if entry.owner == "experts")
        assert held == routed(config)


def test_the_table_has_no_other_rows() -> None:
    text = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    table = text.split("## Six models")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\S+) \|", table, re.MULTILINE)[1:] == list(SIX)
