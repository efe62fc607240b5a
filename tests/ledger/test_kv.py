"""The KV pool: bytes per block, groups, and the engine's printed figures."""

from typing import Any

from oomctl.analyzers.ledger import predict
from oomctl.analyzers.ledger.config import from_mapping
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.kv import layout, max_concurrency, printed_tokens
from oomctl.schemas.ledger import KvLayout
from tests.ledger import configs

ROW = 2 * 2 * 32 * 2  # keys and values of 2 heads of 32, in bf16


def of(config: dict[str, Any], length: int = 1024, **arguments: Any) -> KvLayout:
    shape = from_mapping(config, "small")
    return layout(shape.layers, shape, Engine(**arguments), length)


def test_full_attention_is_one_group() -> None:
    own = of(configs.DENSE)
    assert (own.bytes_per_block, own.bytes_per_token, own.blocks_per_request) == (4 * 16 * ROW, 4 * ROW, 64)
    assert of(configs.DENSE, kv_dtype="fp8").bytes_per_block == 2 * 16 * ROW


def test_kv_heads_halve_with_ranks_until_one_is_left() -> None:
    assert (
        of(configs.DENSE, tensor_parallel=2).bytes_per_token
        == of(configs.DENSE, tensor_parallel=8).bytes_per_token
        == 2 * ROW
    )


def test_mla_is_whole_on_every_rank() -> None:
    assert of(configs.LATENT).bytes_per_token == of(configs.LATENT, tensor_parallel=4).bytes_per_token == 4 * (64 + 16) * 2
    assert of(configs.LATENT, version=(0, 7)).bytes_per_token == 4 * 256
    assert of(configs.LATENT, version=(0, 8), v0=True).bytes_per_token == 4 * (64 + 16) * 2


def test_windowed_layers_share_blocks_in_groups_of_the_smallest_bucket() -> None:
    own = of(configs.SLIDING, batched_tokens=128)
    assert [(group.kind, group.layers) for group in own.groups] == [("sliding", 2), ("sliding", 2), ("full", 2)]
    # A window of 64 with 128 scheduled at once: ceil((63 + 128) / 16) + 1 blocks.
    assert own.blocks_per_request == 13 + 13 + 64
    assert own.bytes_per_block == 2 * 16 * ROW
    without = of(configs.SLIDING, hybrid_groups=False)
    assert (len(without.groups), without.bytes_per_token) == (1, 6 * ROW)


def test_a_state_sets_the_block_size() -> None:
    own = of(configs.HYBRID, version=(0, 20))
    state = (2 * 128 + 256) * 3 * 2 + 256 * 32 * 4
    assert {group.block_tokens for group in own.groups} == {-(-state // (16 * ROW)) * 16}
    assert [group.kind for group in own.groups] == ["gated_delta_net"] * 3 + ["full"]
    assert own.groups[0].blocks_per_request == 1
    assert of(configs.HYBRID, version=(0, 24)).groups[0].blocks_per_request == 2
    assert of(configs.HYBRID, version=(0, 24), prefix_caching=False, draft_tokens=2).groups[0].blocks_per_request == 3


def test_printed_tokens_mean_three_things() -> None:
    own = of(configs.SLIDING, batched_tokens=128)
    assert printed_tokens(100, own, Engine(version=(0, 20)), 1024) == 100 // 3 * 16
    assert printed_tokens(100, own, Engine(version=(0, 21)), 1024) == int(100 / 90 * 1024)
    assert printed_tokens(100, of(configs.DENSE, v0=True), Engine(v0=True), 1024) == 1600
    assert max_concurrency(96, of(configs.DENSE), Engine(), 1024) == 1.5


def test_the_first_engine_keeps_states_outside_its_blocks() -> None:
    hybrid = of(configs.HYBRID, version=(0, 6))
    assert [group.kind for group in hybrid.groups] == ["full"]
    alone = configs.PATTERN | {"hybrid_override_pattern": "MM"}
    assert of(alone, version=(0, 6)).groups == ()


def test_the_checkpoint_may_ask_for_fp8() -> None:
    asks = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
    config = configs.DENSE | {"quantization_config": asks}
    newer, older = (predict(from_mapping(config, "m"), Engine(version=version)) for version in ((0, 19), (0, 11)))
    assert newer.kv_format == "fp8"
    assert newer.kv[0].bytes_per_token * 2 == older.kv[0].bytes_per_token
    assert any("FP8" in note for note in newer.notes)


def test_the_share_of_the_device_rose_with_the_charge_for_graphs() -> None:
    assert [Engine(version=version).memory_share for version in ((0, 20), (0, 21))] == [0.9, 0.92]
    assert Engine(utilization=0.5, version=(0, 32)).memory_share == 0.5
    assert Engine(name="sglang", version=(0, 30)).memory_share == 0.9


def test_layers_may_share_what_is_kept() -> None:
    assert of(configs.DENSE | {"num_kv_shared_layers": 3}).bytes_per_token == ROW
    assert of(configs.DENSE | {"use_cla": True, "cla_share_factor": 2}).bytes_per_token == 2 * ROW


def test_chunks_have_blocks_of_their_own_where_the_engine_lets_them() -> None:
    kinds = ["chunked_attention", "chunked_attention", "chunked_attention", "full_attention"]
    config = configs.DENSE | {"layer_types": kinds, "attention_chunk_size": 64}
    assert {group.kind for group in of(config).groups} == {"chunked", "full"}
    assert [group.kind for group in of(config, version=(0, 11)).groups] == ["full"]
    assert [group.kind for group in of(config, draft_tokens=1).groups] == ["full"]
