"""What a rank holds beside weights and KV blocks, counted by hand for small models."""

from typing import Any

import msgspec
import pytest

from oomctl.analyzers.ledger import Engine, predict
from oomctl.analyzers.ledger.config import from_mapping
from oomctl.analyzers.ledger.runtime import GRAPHS_CHARGED
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.ledger import Entry, Ledger
from tests.ledger import configs

MAMBA: dict[str, Any] = {
    "architectures": ["FalconMambaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "state_size": 16,
    "conv_kernel": 4,
    "time_step_rank": 16,
    "num_hidden_layers": 4,
    "vocab_size": 1000,
}
JAMBA = configs.DENSE | {
    "architectures": ["JambaForCausalLM"],
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 16,
}
CONV = configs.DENSE | {
    "architectures": ["Lfm2ForCausalLM"],
    "layer_types": ["conv", "conv", "full_attention", "conv"],
    "conv_L_cache": 3,
}


def of(config: dict[str, Any], device: int | None = 80 * 2**30, **arguments: Any) -> Ledger:
    return predict(from_mapping(config, "small"), Engine(**arguments), device)


def entry(ledger: Ledger, owner: str, rank: int = 0) -> Entry:
    return next(one for one in ledger.entries if (one.owner, one.rank) == (owner, rank))


@pytest.mark.parametrize(
    "arguments",
    [
        {"loras": 2, "tensor_parallel": 2, "kv_connector": "P2pNcclConnector", "expert_parallel": True},
        {"version": (0, 21), "pipeline_parallel": 2, "draft_tokens": 1, "kv_dtype": "fp8"},
        {"version": (0, 6)},
        {"name": "sglang", "version": (0, 5), "static_share": 0.8},
    ],
    ids=["adapters", "graphs", "first", "sglang"],
)
@pytest.mark.parametrize("config", [configs.LATENT, configs.HYBRID], ids=["latent", "hybrid"])
def test_each_entry_says_where_it_comes_from(config: dict[str, Any], arguments: dict[str, Any]) -> None:
    ledger = of(config, **arguments)
    for one in ledger.entries:
        assert (one.bytes is None) == (one.quality is None)
        assert one.reason if one.bytes is None else one.formula and one.source, one.owner
        if one.quality == "estimated":
            assert one.low_bytes is not None and one.bytes is not None and one.high_bytes is not None, one.owner
            assert one.low_bytes <= one.bytes <= one.high_bytes, one.owner
        if one.within:
            assert any(whole.owner == one.within and whole.counts for whole in ledger.entries), one.within


def test_nothing_is_counted_twice() -> None:
    ledger = of(configs.LATENT, loras=2, tensor_parallel=2)
    for component in ("weights", "activation", "adapter", "logits", "collective"):
        own = [one for one in ledger.entries if one.component == component and one.counts]
        assert not any(one.within or one.lifetime in ("load", "headroom") or one.place != "device" for one in own)
        total = ledger.total(component)
        assert total == (sum(one.bytes or 0 for one in own) if own else None)


def test_slots_of_adapters_are_taken_whether_used_or_not() -> None:
    rank, hidden, width = 8, 256, 512
    attention = rank * hidden * 3 + (256 + 64 + 64) * rank + rank * 256 + hidden * rank
    mlp = rank * hidden * 2 + 2 * width * rank + rank * width + hidden * rank
    ledger = of(configs.DENSE, loras=3, lora_rank=rank, cpu_loras=10)
    assert entry(ledger, "LoRA slots").bytes == 3 * 4 * (attention + mlp) * 2
    assert entry(ledger, "one adapter in its slot (hot)").bytes == 4 * (attention + mlp) * 2
    cold = entry(ledger, "adapters on the host (cold)")
    assert (cold.bytes, cold.place, cold.counts) == (10 * 4 * (attention + mlp) * 2, "host", False)
    assert entry(ledger, "one adapter merged into a copy").bytes == ledger.total("weights")
    assert ledger.total("adapter") == entry(ledger, "LoRA slots").bytes
    assert of(configs.DENSE).total("adapter") is None


def test_adapters_are_split_on_one_side_unless_told_otherwise() -> None:
    whole = entry(of(configs.DENSE, loras=1, lora_rank=8), "LoRA slots").bytes or 0
    half = entry(of(configs.DENSE, loras=1, lora_rank=8, tensor_parallel=2), "LoRA slots").bytes or 0
    both = entry(of(configs.DENSE, loras=1, lora_rank=8, tensor_parallel=2, lora_shards_both=True), "LoRA slots").bytes
    assert whole / 2 < half < whole
    assert both == whole // 2


def test_adapters_are_charged_to_the_budget() -> None:
    without, with_slots = of(configs.DENSE), of(configs.DENSE, loras=8, lora_rank=64)
    assert without.pool is not None and with_slots.pool is not None
    slots = with_slots.total("adapter") or 0
    assert without.pool.bytes - with_slots.pool.bytes == pytest.approx(slots, abs=without.kv[0].bytes_per_block)


def test_logits_and_what_requests_may_ask_for() -> None:
    ledger = of(configs.DENSE, max_requests=64, batched_tokens=512)
    assert entry(ledger, "logits").bytes == 64 * 1000 * 2
    assert entry(ledger, "logits in fp32").bytes == 64 * 1000 * 4
    assert entry(ledger, "prompt_logprobs of one chunk").bytes == 2 * 512 * 1000 * 4
    assert entry(ledger, "penalties").bytes == 2 * 64 * 1001 * 8
    assert entry(ledger, "grammar masks").bytes == 64 * 32 * 4
    assert entry(ledger, "one beam more").bytes == ledger.kv[0].bytes_per_block


def test_a_pipelines_first_rank_makes_no_logits_and_hands_states_on() -> None:
    ledger = of(configs.DENSE, pipeline_parallel=2, batched_tokens=512)
    assert [one.rank for one in ledger.entries if one.owner == "logits"] == [1]
    assert entry(ledger, "pipeline boundary").bytes == entry(ledger, "pipeline boundary", 1).bytes == 2 * 512 * 256 * 2


def test_block_tables_have_a_row_per_request_and_group() -> None:
    assert entry(of(configs.DENSE, max_requests=64), "block tables").bytes == 64 * 64 * 4
    assert entry(of(configs.SLIDING, max_requests=64), "block tables").bytes == 3 * 64 * 64 * 4


def test_buffers_of_disaggregated_serving() -> None:
    assert entry(of(configs.DENSE, kv_connector="P2pNcclConnector"), "P2pNcclConnector").bytes == 10**9
    bought = of(configs.DENSE, kv_connector="P2pNcclConnector", kv_buffer_bytes=5)
    assert entry(bought, "P2pNcclConnector").bytes == 5
    assert entry(of(configs.DENSE, kv_connector="NixlConnector"), "NixlConnector").bytes == 0
    novel = of(configs.DENSE, kv_connector="Novel")
    assert entry(novel, "Novel").bytes is None
    assert novel.summary.headroom_gib_per_rank is None


def test_graphs_grow_with_the_sizes_that_are_captured() -> None:
    few, many = (of(configs.DENSE, graph_sizes=sizes).total("graph_pool") or 0 for sizes in ((1,), tuple(range(1, 200))))
    assert few < many
    eager = entry(of(configs.DENSE, eager=True), "captured graphs")
    assert (eager.bytes, eager.quality) == (0, "predicted")


def test_the_graphs_are_charged_from_0_21() -> None:
    older, newer = (of(configs.DENSE, version=version, utilization=0.9) for version in ((0, 20), (0, 21)))
    assert older.pool is not None and newer.pool is not None
    graphs = entry(newer, GRAPHS_CHARGED).bytes or 0
    assert graphs < (newer.total("graph_pool") or 0), "what is charged is the engine's guess, and no memory of its own"
    assert older.pool.bytes - newer.pool.bytes == pytest.approx(graphs, abs=newer.kv[0].bytes_per_block)


def test_loading_stages_what_is_quantised_or_repacked() -> None:
    plain = of(configs.DENSE)
    assert entry(plain, "load peak").bytes == plain.total("weights")
    packed = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    repacked = of(configs.DENSE | {"quantization_config": packed})
    assert (entry(repacked, "load peak").bytes or 0) > (repacked.total("weights") or 0)
    older, newer = (of(configs.DENSE, quantization="fp8", version=version) for version in ((0, 14), (0, 19)))
    assert (entry(older, "load peak").bytes or 0) > (plain.total("weights") or 0)
    assert (entry(newer, "load peak").bytes or 0) < (entry(older, "load peak").bytes or 0)
    assert entry(newer, "checkpoint").bytes == entry(plain, "checkpoint").bytes


def test_restart_and_rolling_update() -> None:
    ledger = of(configs.DENSE)
    context, weights = ledger.total("context") or 0, ledger.total("weights") or 0
    assert entry(ledger, "restart overlap").bytes == context + weights
    burst = entry(ledger, "burst: one request more").bytes or 0
    assert burst == ledger.kv[0].blocks_per_request * ledger.kv[0].bytes_per_block
    parts = sum(ledger.total(name) or 0 for name in ("activation", "non_torch", "graph_pool"))
    assert entry(ledger, "rolling update").bytes == context + weights + parts + burst
    assert entry(of(configs.DENSE, version=(0, 11)), "rolling update").reason


def test_packed_keys_keep_a_scale_per_head() -> None:
    plain, packed = of(configs.DENSE, kv_dtype="fp8"), of(configs.DENSE, kv_dtype="fp8_per_token_head")
    assert packed.kv[0].bytes_per_token - plain.kv[0].bytes_per_token == 4 * 2 * 2 * 4
    scales = entry(packed, "scales of keys and values")
    assert scales.within == "KV blocks"
    assert (scales.bytes or 0) / (packed.total("kv_pool") or 1) == pytest.approx(64 / packed.kv[0].bytes_per_token)
    with pytest.raises(OomctlError, match="novel"):
        of(configs.DENSE, kv_dtype="novel")


def test_mamba_1_keeps_a_state_of_fixed_size() -> None:
    ledger = of(MAMBA)
    (group,) = ledger.kv[0].groups
    assert (group.kind, group.layers, group.page_bytes) == ("mamba1", 4, (512 * 3 + 512 * 16) * 2)
    assert ledger.kv[0].bytes_per_token == 0
    halved = of(MAMBA, tensor_parallel=2)
    assert halved.kv[0].groups[0].page_bytes * 2 == group.page_bytes


def test_jamba_mixes_states_attention_and_experts() -> None:
    ledger = of(JAMBA)
    assert [group.kind for group in ledger.kv[0].groups] == ["mamba1", "mamba1", "mamba1", "full"]
    assert (entry(ledger, "experts").bytes, entry(ledger, "mlp").bytes) == (
        2 * 4 * 3 * 512 * 256 * 2,
        2 * 3 * 512 * 256 * 2,
    )


def test_a_short_convolution_keeps_its_last_inputs() -> None:
    ledger = of(CONV, block_size=1)
    assert [group.kind for group in ledger.kv[0].groups] == ["short_conv"] * 3 + ["full"]
    assert ledger.kv[0].groups[0].page_bytes >= 256 * 2 * 2


@pytest.mark.parametrize("wrong", [{"mamba_expand": None}, {"mamba_expand": float("inf")}, {"mamba_d_state": -1}], ids=str)
def test_a_damaged_recurrent_config_is_one_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(OomctlError):
        of(JAMBA | wrong)


def test_experts_whose_number_is_not_told_make_no_estimate() -> None:
    ledger = of({key: value for key, value in configs.LATENT.items() if key != "num_experts_per_tok"})
    assert "how many experts" in entry(ledger, "profiling peak").reason
    assert ledger.pool is None


def test_the_artifact_reads_back() -> None:
    ledger = of(configs.LATENT, loras=1)
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger) == ledger


def test_the_parts_of_a_step() -> None:
    ledger = of(configs.DENSE, tensor_parallel=2, batched_tokens=1000, max_requests=10)
    sizes = {one.owner: one.bytes for one in ledger.entries if one.within == "profiling peak"}
    assert sizes["hidden states"] == 1000 * 256 * 2
    assert sizes["queries, keys, values, output"] == 1000 * (4 + 2 + 4) * 32 * 2
    assert sizes["feed-forward"] == 1000 * 3 * 256 * 2
    assert (sizes["logits"], sizes["logits in fp32"], sizes["sorted logits"]) == (20_000, 40_000, 120_000)
    routed = of(configs.LATENT, batched_tokens=1000)
    assert entry(routed, "routing").bytes == 1000 * (4 * 2 + 2 * 12)
    packed = configs.DENSE | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    assert entry(of(packed, batched_tokens=1000), "quantised inputs").bytes == 1000 * (512 + 4 * 4)


def test_graphs_grow_by_each_captured_size() -> None:
    many, fewer = of(configs.DENSE), of(configs.DENSE, graph_sizes=tuple(range(1, 51)))
    each = entry(many, "each captured size").bytes or 0
    assert (many.total("graph_pool") or 0) - (fewer.total("graph_pool") or 0) == pytest.approx(each, abs=2)
    assert not any(one.owner == "each captured size" for one in of(configs.DENSE, eager=True).entries)


def test_layers_on_the_host_leave_the_device() -> None:
    whole, half = of(configs.DENSE), of(configs.DENSE, offload_bytes=2**20)
    moved = entry(half, "offloaded")
    assert moved.place == "host"
    assert 2**20 <= (moved.bytes or 0) < 2**20 + 2 * 2 * 512 * 256, "the tensor that fills it goes whole"
    assert (whole.total("weights") or 0) - (half.total("weights") or 0) == pytest.approx(moved.bytes, rel=0.01)
    assert whole.pool is not None and half.pool is not None
    assert half.pool.blocks > whole.pool.blocks
    everything = of(configs.DENSE, offload_bytes=2**40)
    assert {one.owner for one in everything.entries if one.component == "weights" and one.counts} >= {"embedding", "head"}
