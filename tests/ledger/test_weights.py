"""Weights per rank, counted by hand for small models."""

from typing import Any

import pytest

from oomctl.analyzers.ledger.config import from_mapping
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.shape import ModelShape
from oomctl.analyzers.ledger.weights import disk_bytes, rank_tensors
from oomctl.schemas.errors import OomctlError
from tests.ledger import configs

PADDED = 1024  # 1000 words, padded to a multiple of 64
TABLE = PADDED * 256 * 2
ROTARY = 1024 * 32 * 2
LAYER = (8 * 32 + 2 * 2 * 32) * 256 + 256 * 256 + 3 * 512 * 256 + 2 * 256


def shape_of(config: dict[str, Any]) -> ModelShape:
    return from_mapping(config, "small")


def total(config: dict[str, Any], stage: int = 0, owner: str = "", **arguments: Any) -> int:
    tensors = rank_tensors(shape_of(config), Engine(**arguments), stage)
    return sum(tensor.bytes for tensor in tensors if owner in tensor.owner)


def test_a_dense_model_alone() -> None:
    assert total(configs.DENSE) == 2 * TABLE + ROTARY + 4 * LAYER * 2 + 256 * 2


def test_tied_embeddings_are_one_tensor_unless_a_pipeline_parts_them() -> None:
    tied = configs.DENSE | {"tie_word_embeddings": True}
    assert total(configs.DENSE) - total(tied) == TABLE
    assert total(tied, 0, "embedding", pipeline_parallel=2) == total(tied, 1, "embedding", pipeline_parallel=2) == TABLE


def test_kv_heads_are_replicated_where_ranks_exceed_them() -> None:
    two = total(configs.DENSE, owner="attention", tensor_parallel=2)
    four = total(configs.DENSE, owner="attention", tensor_parallel=4)
    # Queries and output halve; the single KV head of a rank stays.
    assert two - four == 4 * (2 * 32 * 256 + 256 * 64) * 2


def test_norms_and_rotary_tables_are_whole_on_every_rank() -> None:
    for owner in ("norm", "rotary"):
        assert total(configs.DENSE, owner=owner) == total(configs.DENSE, owner=owner, tensor_parallel=2)


def test_a_pipeline_parts_layers_and_ends() -> None:
    first, last = (total(configs.DENSE, stage, pipeline_parallel=2) for stage in (0, 1))
    assert first == TABLE + ROTARY + 2 * LAYER * 2
    assert last == TABLE + ROTARY + 2 * LAYER * 2 + 256 * 2


def test_all_experts_are_resident_and_split_by_width_or_by_number() -> None:
    alone = total(configs.LATENT, owner="experts")
    routed, shared = 3 * 4 * 3 * 128 * 256 * 2, 3 * 3 * 128 * 256 * 2
    assert alone == routed + shared
    for expert_parallel in (False, True):
        assert total(configs.LATENT, owner="experts", tensor_parallel=2, expert_parallel=expert_parallel) == alone // 2


def test_mla_keeps_absorbed_copies_in_the_models_type() -> None:
    packed = configs.LATENT | {"quantization_config": {"quant_method": "fp8"}}
    assert total(configs.LATENT, owner="absorbed") == total(packed, owner="absorbed") == 4 * 8 * 64 * 64 * 2


def test_vllm_0_7_multiplied_the_projections_out() -> None:
    heads, rank, rope, hidden = 8, 64, 16, 256
    once = rope * heads * hidden + 2 * heads * rank * hidden
    assert total(configs.LATENT, owner="absorbed", version=(0, 7)) == 4 * once * 2
    assert total(configs.LATENT, owner="absorbed", version=(0, 6)) == 0
    packed = configs.LATENT | {"quantization_config": {"quant_method": "fp8"}}
    unpacked_kv = heads * 64 * rank * 2
    fp8 = rope * heads * hidden * 2 + 2 * (heads * rank * hidden + 4) + unpacked_kv
    assert total(packed, owner="absorbed", version=(0, 7)) == 4 * fp8


def test_the_remainder_of_a_pipeline_moves_with_the_version() -> None:
    five = configs.DENSE | {"num_hidden_layers": 5}
    older, newer = (total(five, 1, "mlp", pipeline_parallel=2, version=version) for version in ((0, 7), (0, 8)))
    assert older * 2 == newer * 3


def test_positions_of_several_axes_make_a_longer_table() -> None:
    seen = configs.DENSE | {"rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}}
    assert total(seen, owner="rotary") == 4 * ROTARY


@pytest.mark.parametrize(
    ("quantization", "per_weight"),
    [
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 128**2),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 0.5 + 2 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.5 + 2.5 / 128),
        ({"quant_method": "mxfp4"}, 0.5 + 1 / 32),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5 + 1 / 16),
    ],
)
def test_packed_bytes_per_weight(quantization: dict[str, Any], per_weight: float) -> None:
    weights = 4 * 3 * 512 * 256
    got = total(configs.DENSE | {"quantization_config": quantization}, owner="mlp")
    assert got == pytest.approx(weights * per_weight, abs=64)


def test_modules_that_the_checkpoint_leaves_alone() -> None:
    kept = configs.DENSE | {
        "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    }
    assert total(kept, owner="attention") == total(configs.DENSE, owner="attention")
    assert total(kept, owner="mlp") < total(configs.DENSE, owner="mlp")
    named = configs.DENSE | {
        "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp.down_proj"]}
    }
    all_packed = total(configs.DENSE | {"quantization_config": {"quant_method": "fp8"}}, owner="mlp")
    assert total(named, owner="mlp") - all_packed == 512 * 256 - 4


def test_the_checkpoint_on_disk_is_neither_padded_nor_absorbed() -> None:
    assert disk_bytes(shape_of(configs.DENSE)) == 2 * 1000 * 256 * 2 + 4 * LAYER * 2 + 256 * 2
    with_copies = total(configs.LATENT, owner="absorbed")
    assert disk_bytes(shape_of(configs.LATENT)) < total(configs.LATENT) - with_copies


def test_a_vision_tower_is_split_but_for_its_ends() -> None:
    tower = {"model_type": "qwen3_vl", "depth": 2, "hidden_size": 64, "intermediate_size": 128, "patch_size": 8}
    tower |= {"spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 16}
    seen = configs.DENSE | {"vision_config": tower}
    matrices = 2 * (4 * 64 * 64 + 2 * 64 * 128) + 256 * 256 + 256 * 256
    alone, shared = total(seen, owner="vision"), total(seen, owner="vision", tensor_parallel=2)
    # Patches, positions, the merger's norm, and its two biases.
    ends = (3 * 64 * 2 + 1) * 64 + 16 * 64 + 2 * 64 + 256 + 256
    biases = 2 * (3 * 64 + 64 + 128 + 64 + 4 * 64)
    assert alone == (matrices + ends + biases) * 2
    assert alone - shared == matrices + 2 * (3 * 64 + 128)
    assert total(seen, owner="vision", tensor_parallel=2, encoder_whole=True) == alone
    assert shape_of(seen).lower_bounds == ()
    assert "vision" in shape_of(configs.DENSE | {"vision_config": {"model_type": "novel"}}).lower_bounds[0]


def test_moonvit_keeps_its_projector_whole() -> None:
    tower = {"model_type": "moonvit", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "patch_size": 8}
    tower |= {"init_pos_emb_height": 4, "init_pos_emb_width": 4, "merge_kernel_size": [2, 2]}
    seen = configs.DENSE | {"vision_config": tower}
    alone, shared = total(seen, owner="vision"), total(seen, owner="vision", tensor_parallel=2)
    layer = 4 * 64 * 64 + 2 * 64 * 128 + 3 * 64 + 128
    projector = 256 * 256 + 256 * 256 + 256 + 256
    whole = (3 * 64 + 1) * 64 + 16 * 64 + 4 * 64 + projector
    assert alone == (2 * (layer + 6 * 64) + whole) * 2
    assert alone - shared == 2 * layer


def test_llama_4s_tower_is_split_with_its_patches() -> None:
    tower = {"model_type": "llama4_vision_model", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 256}
    tower |= {"patch_size": 8, "image_size": 16, "projector_input_dim": 128, "projector_output_dim": 128}
    seen = configs.DENSE | {"vision_config": tower | {"vision_output_dim": 128}}
    alone, shared = total(seen, owner="vision"), total(seen, owner="vision", tensor_parallel=2)
    layer = 4 * 64 * 64 + 2 * 64 * 256 + 3 * 64 + 256
    projections = 3 * 8 * 8 * 64 + 256 * 128 + 128 * 128 + 128 * 256
    assert alone - shared == 2 * layer + projections
    assert alone == 2 * (2 * (layer + 6 * 64) + projections + 64 + 5 * 64 + 4 * 64)


def test_qwen2_vls_tower_has_a_width_of_its_own() -> None:
    tower = {"model_type": "qwen2_vl", "depth": 2, "embed_dim": 64, "hidden_size": 256, "mlp_ratio": 4, "patch_size": 8}
    seen = configs.DENSE | {"vision_config": tower | {"spatial_merge_size": 2, "temporal_patch_size": 2}}
    layer = 4 * 64 * 64 + 2 * 64 * 256 + 3 * 64 + 256 + 6 * 64
    ends = 3 * 8 * 8 * 2 * 64 + 2 * 64 + 256 + 256
    assert total(seen, owner="vision") == 2 * (2 * layer + 2 * 256 * 256 + ends)


def test_layers_may_be_listed_by_name() -> None:
    listed = {key: value for key, value in configs.PATTERN.items() if key != "hybrid_override_pattern"}
    listed["layers_block_type"] = ["mamba", "attention", "mlp", "mamba", "moe"]
    assert shape_of(listed).layers == shape_of(configs.PATTERN).layers
    with pytest.raises(OomctlError, match="novel"):
        shape_of(configs.DENSE | {"layer_types": ["novel_attention"] * 4})


def test_a_layer_pattern_has_one_half_per_letter() -> None:
    layers = shape_of(configs.PATTERN).layers
    assert [(layer.mixer is not None, layer.feed_forward is not None) for layer in layers] == [
        (True, False), (True, False), (False, True), (True, False), (False, True),
    ]  # fmt: skip


@pytest.mark.parametrize("ranks", [3, 5, 16])
def test_what_does_not_divide_is_refused(ranks: int) -> None:
    with pytest.raises(OomctlError, match="divide"):
        total(configs.DENSE, tensor_parallel=ranks)


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"])
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(OomctlError, match=field):
        shape_of({key: value for key, value in configs.DENSE.items() if key != field})


def test_an_unknown_quantization_is_refused_and_an_unknown_architecture_is_a_lower_bound() -> None:
    with pytest.raises(OomctlError, match="hqq"):
        shape_of(configs.DENSE | {"quantization_config": {"quant_method": "hqq"}})
    assert "not known" in shape_of(configs.DENSE | {"architectures": ["NovelForCausalLM"]}).lower_bounds[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden_size": "x"},
        {"num_attention_heads": 0},
        {"num_hidden_layers": 2**40},
        {"partial_rotary_factor": float("inf")},
        {"rope_scaling": {"rope_type": "linear", "factor": float("inf")}},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": ["a", 0]}},
        {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["re:("]}},
        {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["re:(a|aa)+$", "re:((a+))*b"]}},
        {"quantization_config": 3},
        {"vision_config": {"model_type": "qwen3_vl"}},
    ],
    ids=str,
)
def test_a_damaged_config_is_one_error_or_is_read(wrong: dict[str, Any]) -> None:
    try:
        assert total(configs.DENSE | wrong) > 0
    except OomctlError as error:
        assert "\n" not in error.what
