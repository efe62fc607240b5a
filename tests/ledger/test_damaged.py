"""Configs with one field damaged: an error that says so, or a ledger; never a traceback."""

from collections.abc import Iterator
from typing import Any

import pytest

from oomctl.analyzers.ledger import Engine, predict
from oomctl.analyzers.ledger.config import from_mapping
from oomctl.schemas.errors import OomctlError
from tests.ledger import configs
from tests.ledger.test_entries import CONV, JAMBA, MAMBA

TOWER = {
    "model_type": "moonvit", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "patch_size": 8,
    "init_pos_emb_height": 4, "init_pos_emb_width": 4, "merge_kernel_size": [2, 2],
}  # fmt: skip
SEEN = configs.DENSE | {
    "vision_config": TOWER,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512},
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 64}}},
        "ignore": ["lm_head", "re:.*self_attn.*"],
    },
}
SEARCHED = configs.DENSE | {
    "architectures": ["DeciLMForCausalLM"], "num_hidden_layers": 2,
    "block_configs": [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.625}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 0.5}},
    ],
}  # fmt: skip
RANKED = configs.DENSE | {"q_lora_rank": 64, "o_lora_rank": 32, "o_groups": 2, "attn_type_list": [0, 1, 0, 1]}
WHOLE = {
    "searched": SEARCHED, "ranked": RANKED,
    "dense": configs.DENSE, "windows": configs.SLIDING, "latent": configs.LATENT, "hybrid": configs.HYBRID,
    "pattern": configs.PATTERN, "mamba": MAMBA, "jamba": JAMBA, "conv": CONV, "seen": SEEN,
}  # fmt: skip
WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 3, 2**70, 1e400, float("nan"), 1.5, "", "x" * 600, "8", [], [None], ["a", 0], [[]], {},
    {"a": {"b": []}},
)  # fmt: skip


def damaged(value: Any) -> Iterator[Any]:
    """The value with one field, at any depth, replaced by each wrong one, or left out."""
    if isinstance(value, dict):
        for key, own in value.items():
            yield {name: item for name, item in value.items() if name != key}
            for wrong in (*WRONG, *damaged(own)):
                yield value | {key: wrong}
    elif isinstance(value, list):
        for wrong in WRONG:
            yield [wrong, *value[1:]]


@pytest.mark.parametrize("name", WHOLE)
def test_one_field_damaged(name: str) -> None:
    read = 0
    for config in damaged(WHOLE[name]):
        try:
            predict(from_mapping(config, "small"), Engine(loras=1, version=(0, 21)), 80 * 2**30)
            read += 1
        except OomctlError as error:
            assert "\n" not in error.what
            assert len(error.what) < 300
    assert read, "most fields matter little"
