"""Models as they were published: their configs, and how many parameters they have, to the last one."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oomctl.analyzers.ledger import Engine, ModelShape, predict
from oomctl.analyzers.ledger.config import from_mapping
from oomctl.analyzers.ledger.packing import Quantization
from oomctl.analyzers.ledger.weights import disk_bytes
from oomctl.schemas.errors import OomctlError
from tests.shared import shared

# The fields of public config.json files that memory depends on, and the count that the model's card or files give.
PUBLISHED: dict[str, tuple[int, dict[str, Any]]] = json.loads(Path(__file__).with_name("published.json").read_text())
SHARED_CONFIGS = {
    "Qwen--Qwen3-235B-A22B": 235_093_634_560,
    "Qwen--Qwen3-30B-A3B": 30_532_122_624,
    "Qwen--Qwen3-VL-8B-Instruct": 8_767_123_696,
    "blis--llama-4-scout-17b-16e-instruct-fp8-dynamic": 108_641_793_536,
    "deepseek-ai--DeepSeek-V3": 671_026_419_200,
    "meta-llama--Meta-Llama-3.1-405B": 405_853_388_800,
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": 49_867_145_216,
    "openai--gpt-oss-120b": 116_829_156_672,
    "openai--gpt-oss-20b": 20_914_757_184,
}
CORRECTIONS = 2e-7
"""Corrections of the experts' choice are counted by some and not by others, and are twice as wide as the rest."""


def parameters(shape: ModelShape) -> float:
    return disk_bytes(msgspec.structs.replace(shape, quantization=Quantization(), element_bytes=2)) / 2


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_parameter_is_counted(name: str) -> None:
    count, config = PUBLISHED[name]
    shape = from_mapping(config, name)
    assert shape.lower_bounds == ()
    assert parameters(shape) == pytest.approx(count, rel=CORRECTIONS)
    assert predict(shape, Engine(), 80 * 2**30).kv


@pytest.mark.parametrize("name", SHARED_CONFIGS)
def test_of_published_configs_too(name: str) -> None:
    path = shared("data", "ledger", "configs", f"{name}_config.json")
    assert parameters(ModelShape.from_config(path)) == pytest.approx(SHARED_CONFIGS[name], rel=CORRECTIONS)


def test_a_config_without_an_architecture_is_known_by_its_type() -> None:
    count, config = PUBLISHED["Qwen2.5-0.5B"]
    nameless = {key: value for key, value in config.items() if key != "architectures"}
    assert parameters(from_mapping(nameless | {"model_type": "qwen2"}, "m")) == count
    assert from_mapping(nameless | {"model_type": "novel"}, "m").lower_bounds


def test_layers_of_a_searched_model_differ() -> None:
    config = dict(PUBLISHED["Llama-3.2-1B"][1]) | {"architectures": ["DeciLMForCausalLM"], "intermediate_size": None}
    full = {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.625}}
    none = {"attention": {"no_op": True}, "ffn": {"ffn_mult": 0.5}}
    shape = from_mapping(config | {"num_key_value_heads": None, "block_configs": [full, none, none]}, "searched")
    widths = [layer.feed_forward.intermediate for layer in shape.layers if layer.feed_forward is not None]
    assert widths == [-(-int(2 * 2.625 * 2048 / 3) // 256) * 256, 768, 768]
    assert [layer.mixer is not None for layer in shape.layers] == [True, False, False]
    assert predict(shape, Engine()).kv[0].bytes_per_token == 2 * 8 * 64 * 2


def test_what_is_not_known_is_no_more_than_it_is() -> None:
    counted = 0
    for name, (count, config) in PUBLISHED.items():
        if "vision_config" in config:
            continue
        try:
            shape = from_mapping(config | {"architectures": ["NovelForCausalLM"], "hidden_act": "gelu"}, name)
        except OomctlError:
            continue
        counted += 1
        assert shape.lower_bounds
        assert parameters(shape) <= count * (1 + CORRECTIONS), name
    assert counted > len(PUBLISHED) / 2


def test_a_cache_that_is_not_modelled_is_said() -> None:
    compressed = PUBLISHED["Mistral-7B"][1] | {"compress_ratios": [4] * 32, "o_lora_rank": 64, "q_lora_rank": 64}
    ledger = predict(from_mapping(compressed | {"architectures": ["NovelForCausalLM"]}, "novel"), Engine(), 80 * 2**30)
    assert ledger.pool is None
    assert ledger.summary.kv_kib_per_token_per_rank is None
    pool = next(entry for entry in ledger.entries if entry.owner == "KV blocks")
    assert pool.bytes is None
    assert "compress_ratios" in pool.reason


def test_an_encoder_with_a_decoder_is_refused() -> None:
    whisper = {"architectures": ["WhisperForConditionalGeneration"], "d_model": 64, "encoder_layers": 2, "vocab_size": 10}
    with pytest.raises(OomctlError, match="encoder"):
        from_mapping(whisper, "whisper")
