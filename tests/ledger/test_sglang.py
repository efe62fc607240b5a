"""SGLang's budget: a share of what is free before loading."""

from typing import Any

import pytest

from oomctl.analyzers.ledger import Engine, predict
from oomctl.analyzers.ledger.arguments import parse_engine
from oomctl.analyzers.ledger.config import from_mapping
from oomctl.analyzers.ledger.sglang import STATES, start_bytes, static_share
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.ledger import GIB, Ledger
from tests.ledger import configs

MIB = 2**20
DEVICE = 80 * GIB


def of(config: dict[str, Any], line: str, device: int | None = DEVICE, version: str = "0.5.6") -> Ledger:
    engine, _ = parse_engine(f"sglang=={version}", line, device)
    return predict(from_mapping(config, "small"), engine, device)


def test_the_pool_is_the_share_less_the_weights() -> None:
    ledger = of(configs.DENSE, "python -m sglang.launch_server --mem-fraction-static 0.8 --context-length 512")
    assert ledger.pool is not None
    weights, (_, start, _) = ledger.total("weights") or 0, start_bytes(Engine(name="sglang"))
    assert ledger.pool.tokens == (int(0.8 * (DEVICE - start)) - weights) // ledger.kv[0].bytes_per_token
    assert ledger.pool.max_concurrency == pytest.approx(ledger.pool.tokens / 512, abs=1e-3)
    pool = next(entry for entry in ledger.entries if entry.owner == "KV blocks")
    assert (pool.low_bytes or 0) < (pool.bytes or 0) < (pool.high_bytes or 0)
    assert ledger.summary.headroom_gib_per_rank is None, "no peak is measured"


def test_the_share_that_it_chooses_itself() -> None:
    shape, latent = from_mapping(configs.DENSE, "small"), from_mapping(configs.LATENT, "small")
    engine = Engine(name="sglang", version=(0, 5))
    reserved = 512 + 1.5 * 8192 + 2 * 256 + 1 / 8 * 1024
    assert static_share(shape, engine, DEVICE) == round(1 - reserved * MIB / DEVICE, 3)
    assert static_share(latent, engine, DEVICE) == round(1 - (reserved + 1536) * MIB / DEVICE, 3)
    small = 24 * GIB
    assert static_share(shape, engine, small) == round(1 - (512 + 1.5 * 4096 + 96 + 128) * MIB / small, 3)
    assert static_share(shape, Engine(name="sglang", version=(0, 4)), DEVICE) is None
    ledger = of(configs.DENSE, "", version="0.4.9")
    assert ledger.pool is None
    assert any("--mem-fraction-static" in note for note in ledger.notes)


def test_a_limit_of_tokens_counts() -> None:
    ledger = of(configs.DENSE, "--mem-fraction-static 0.8 --max-total-tokens 4096 --page-size 64")
    assert ledger.pool is not None
    assert (ledger.pool.tokens, ledger.pool.blocks) == (4096, 64)


def test_windowed_layers_have_a_smaller_pool() -> None:
    ledger = of(configs.SLIDING, "--mem-fraction-static 0.8 --swa-full-tokens-ratio 0.5")
    layer = 2 * 2 * 32 * 2
    assert ledger.kv[0].bytes_per_token == 2 * layer + 4 * layer // 2
    whole = of(configs.SLIDING, "--mem-fraction-static 0.8 --disable-hybrid-swa-memory")
    assert whole.kv[0].bytes_per_token == 6 * layer
    assert ledger.pool is not None
    assert whole.pool is not None
    assert ledger.pool.tokens > whole.pool.tokens


def test_recurrent_states_take_their_share_first() -> None:
    ledger = of(configs.HYBRID, "--mem-fraction-static 0.8 --mamba-full-memory-ratio 1.0")
    states, keys = (next(entry for entry in ledger.entries if entry.owner == owner) for owner in (STATES, "KV blocks"))
    one = 6 * ((2 * 4 * 32 + 8 * 32) * 3 * 2 + 8 * 32 * 32 * 4)
    assert (states.bytes or 0) % one == 0
    assert abs((states.bytes or 0) - (keys.bytes or 0)) <= 2 * one
    assert (states.low_bytes or 0) < (states.bytes or 0) < (states.high_bytes or 0)
    asked = of(configs.HYBRID, "--mem-fraction-static 0.8 --max-mamba-cache-size 100")
    assert asked.total("kv_pool") == 101 * one + (asked.pool.bytes if asked.pool else 0)


def test_other_engines_are_a_clear_error() -> None:
    for name in ("trtllm==1.0", "llama.cpp", "tgi", ""):
        with pytest.raises(OomctlError, match="not modelled"):
            parse_engine(name, "")


def test_without_a_device_there_is_no_budget() -> None:
    ledger = of(configs.HYBRID, "--mem-fraction-static 0.8", None)
    assert ledger.pool is None
    assert ledger.total("kv_pool") is None
