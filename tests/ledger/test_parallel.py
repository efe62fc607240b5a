"""Data parallelism, contexts spread over ranks, and models that draft."""

from typing import Any

import pytest

from oomctl.analyzers.ledger import predict
from oomctl.analyzers.ledger.arguments import parse_engine
from oomctl.analyzers.ledger.config import from_mapping
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.ledger import Ledger
from tests.ledger import configs

DEVICE = 80 * 2**30
EXPERTS = configs.DENSE | {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}


def of(config: dict[str, Any], line: str = "", name: str = "vllm==0.19.0", draft: dict[str, Any] | None = None) -> Ledger:
    engine, notes = parse_engine(name, line, DEVICE)
    ledger = predict(
        from_mapping(config, "small"), engine, DEVICE, draft=None if draft is None else from_mapping(draft, "draft")
    )
    ledger.notes += notes
    return ledger


def held(ledger: Ledger, owner: str) -> int:
    return sum(entry.bytes or 0 for entry in ledger.entries if entry.owner == owner)


def test_replicas_part_the_experts_and_nothing_else() -> None:
    alone, twice = of(EXPERTS, "--tp 2"), of(EXPERTS, "--tp 2 -dp 2")
    assert held(twice, "experts") * 2 == held(alone, "experts")
    assert held(twice, "attention") == held(alone, "attention")
    assert twice.kv == alone.kv
    whole = of(EXPERTS, "--tp 2 -dp 2 --enable-expert-parallel")
    assert held(whole, "experts") == held(twice, "experts")
    assert held(whole, "experts' buffers") > held(twice, "experts' buffers"), "whole experts have their whole width"
    spare = of(EXPERTS, "--tp 2 -dp 2 --enable-expert-parallel --num-redundant-experts 4")
    assert held(spare, "experts") * 2 == held(whole, "experts") * 3


def test_sglangs_attention_is_parted_by_the_replicas() -> None:
    many, few = (of(EXPERTS, line, "sglang==0.5.6") for line in ("--tp 8", "--tp 8 --dp 4 --enable-dp-attention"))
    # Four query heads, and as many outputs, beside one key and one value head; else one and one beside two.
    assert held(few, "attention") * 4 == held(many, "attention") * 10
    assert held(few, "experts") == held(many, "experts")
    assert few.kv[0].bytes_per_token == many.kv[0].bytes_per_token, "two KV heads: one for each of two ranks, else copies"
    with pytest.raises(OomctlError, match="do not divide"):
        of(EXPERTS, "--tp 8 --dp 3 --enable-dp-attention", "sglang==0.5.6")


def test_a_context_may_be_spread_over_ranks() -> None:
    alone, spread = of(configs.LATENT, "--tp 2"), of(configs.LATENT, "--tp 2 -dcp 2")
    assert alone.pool is not None
    assert spread.pool is not None
    assert spread.pool.blocks == alone.pool.blocks
    assert spread.pool.tokens == 2 * alone.pool.tokens
    assert spread.kv[0].blocks_per_request * 2 == alone.kv[0].blocks_per_request


SPECULATIVE = """--speculative-config '{"method": "%s", "num_speculative_tokens": 2}'"""


def test_own_layers_draft_with_what_joins_them() -> None:
    drafting = configs.LATENT | {"num_nextn_predict_layers": 1}
    without, with_draft = of(drafting), of(drafting, SPECULATIVE % "deepseek_mtp")
    assert held(with_draft, "draft") == 2 * (2 * 256 * 256 + 3 * 256)
    assert held(with_draft, "experts") * 3 == held(without, "experts") * 4
    assert with_draft.kv[0].bytes_per_token * 4 == without.kv[0].bytes_per_token * 5
    assert any("no layers that draft" in note for note in of(configs.LATENT, SPECULATIVE % "mtp").notes)


def test_a_model_that_drafts_is_counted_where_it_is_given() -> None:
    small = configs.DENSE | {"num_hidden_layers": 1}
    assert any("draft model" in note for note in of(configs.DENSE, SPECULATIVE % "draft_model").notes)
    both = of(configs.DENSE, SPECULATIVE % "draft_model", draft=small)
    alone, without = of(small), of(configs.DENSE)
    rounding = held(alone, "allocator rounding")
    assert held(both, "draft model") == (alone.total("weights") or 0) - rounding
    assert both.kv[0].bytes_per_token * 4 == without.kv[0].bytes_per_token * 5
    assert of(configs.DENSE, SPECULATIVE % "ngram").total("weights") == without.total("weights")


def test_eagle_shares_embedding_and_head() -> None:
    head = {"num_hidden_layers": 1, "architectures": ["EagleLlamaForCausalLM"]}
    found = of(configs.DENSE, SPECULATIVE % "eagle", draft=configs.DENSE | head)
    layer = (8 + 2 * 2) * 32 * 256 + 8 * 32 * 256 + 3 * 256 * 512 + 2 * 256
    rotary = 1024 * 32
    assert held(found, "draft model") == 2 * (layer + 256 + rotary + 2 * 256 * 256)
    third = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 500, "num_hidden_layers": 1}
    found = of(configs.DENSE, SPECULATIVE % "eagle3", draft=configs.DENSE | third)
    second_half, own_head = (8 + 2 * 2) * 32 * 256, 512 * 256
    joined = 3 * 256 * 256
    assert held(found, "draft model") == 2 * (layer + 256 + rotary + joined + second_half + 256 + own_head) + 500 * 8


def test_sglang_drafts_with_its_own_layers_or_a_model() -> None:
    drafting = configs.LATENT | {"num_nextn_predict_layers": 1}
    own = of(drafting, "--speculative-algorithm NEXTN", "sglang==0.5.6")
    assert own.kv[0].bytes_per_token * 4 == of(drafting, "", "sglang==0.5.6").kv[0].bytes_per_token * 5
    line = "--speculative-algorithm EAGLE --speculative-draft-model-path x"
    assert any("draft model" in note for note in of(configs.DENSE, line, "sglang==0.5.6").notes)
    assert of(drafting, "--speculative-algorithm NGRAM", "sglang==0.5.6").kv == of(drafting, "", "sglang==0.5.6").kv
