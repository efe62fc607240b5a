"""What a pool holds: each figure worked out by hand, and the command as a user runs it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oomctl.analyzers.capacity.active import Service
from oomctl.analyzers.capacity.fits import pool_report
from oomctl.analyzers.capacity.pool import blocks_of, given_pool, ledger_pool
from oomctl.analyzers.ledger import Engine, ModelShape, predict
from oomctl.schemas.token_pool import Group, TokenPool
from tests.capacity.made import trace
from tests.cli.run import oomctl
from tests.ledger.configs import DENSE, write

ROWS = ["TIMESTAMP,ContextTokens,GeneratedTokens"] + [f"2026-01-01 00:00:0{n}.0000000,{60 + n},4" for n in range(6)]


def kept_blocks(report: Any) -> dict[str, int | None]:
    return {one.name: one.blocks for one in report.headroom}


def test_blocks_of_sequences() -> None:
    tokens = np.array([0, 1, 16, 17, 1000])
    assert blocks_of(tokens, given_pool(10, 16)).tolist() == [0, 1, 1, 2, 63]
    groups = (Group(block_tokens=16), Group(block_tokens=16, most_blocks=4))
    hybrid = TokenPool(source="", quality="given", blocks=10, groups=groups, tokens=96)
    assert blocks_of(tokens, hybrid).tolist() == [0, 2, 2, 4, 67]


def test_sequences_by_quantile() -> None:
    made = trace([0, 1, 2, 3], [10, 20, 40, 200], [6, 12, 8, 8])
    fit = pool_report(given_pool(12, 16), made, rules=[]).fits[0]
    assert (fit.sequence_tokens.p50, fit.blocks_p50, fit.sequences_p50) == (40, 3, 4)
    assert fit.sequences_mean == pytest.approx(12 / ((1 + 2 + 3 + 13) / 4))
    assert fit.rounding_ratio == pytest.approx(1 - (16 + 32 + 48 + 208) / (16 * 19))
    assert fit.too_long == 1


def test_headroom() -> None:
    """One request for 10 s all the time, and for 0.3 s three more of 4 blocks each."""
    made = trace([0, 10, 10.1, 10.1, 10.1], [16, 16, 64, 64, 64], [0] * 5, service_s=[10.0, 10.0, 0.3, 0.3, 0.3])
    report = pool_report(given_pool(20, 16), made, rules=[])
    assert report.alive_quality == "measured"
    kept = kept_blocks(report)
    assert (kept["alive at p50"], kept["p95"], kept["burst"]) == (1, 0, 12)
    assert kept["fragmentation, in those above"] == 0
    assert (kept["restart"], kept["rolling update"]) == (None, None)
    assert report.left_blocks == 20 - 13


def test_replicas_share_the_load_and_that_of_one_away() -> None:
    made = trace([0, 0, 0, 0], [160] * 4, [0] * 4, service_s=[5.0] * 4)
    kept = kept_blocks(pool_report(given_pool(100, 16), made, rules=[], replicas=3))
    assert (kept["alive at p50"], kept["restart"], kept["rolling update"]) == (14, 7, 0)


def test_two_ways_to_allocate() -> None:
    blocks = [[0, 1, 2, 3], [0, 1, 2, 4]]
    made = trace([0, 1], [64, 64], [1, 16], blocks=blocks, block_tokens=16)
    paged, virtual = pool_report(given_pool(100, 16), made, rules=[], page_tokens=[64]).allocations
    assert (paged.model, paged.granule_tokens) == ("paged blocks", 16)
    assert paged.waste_ratio == pytest.approx(1 - 145 / 160)
    assert paged.sequences_mean == pytest.approx(1600 / 80)
    assert paged.allocations.max == 5
    assert paged.shared_ratio == pytest.approx(48 / 128)
    assert (virtual.model, virtual.granule_tokens, virtual.allocations.max) == ("virtual contiguity", 64, 2)
    assert virtual.waste_ratio == pytest.approx(1 - 145 / 256)
    assert virtual.shared_ratio == 0


def test_pages_hold_the_tokens_of_a_layers_tensor(tmp_path: Path) -> None:
    """2 heads of 32 in bf16 are 128 B a token: 512 in 64 KiB, 16,384 in 2 MiB."""
    ledger = predict(ModelShape.from_config(write(tmp_path, DENSE)), Engine(), device=80 * 2**30)
    pool = ledger_pool(ledger)
    assert ledger.pool is not None
    assert (pool.blocks, pool.tokens) == (ledger.pool.blocks, ledger.pool.tokens)
    assert pool.bytes_per_token == 4 * 2 * 128
    report = pool_report(pool, trace([0, 1], [64, 64], [1, 16]), rules=[], service=Service(), ledger=ledger)
    assert [one.granule_tokens for one in report.allocations] == [16, 512, 16384]
    assert kept_blocks(report)["restart overlap, same device"] is not None


def test_groups_of_layers_that_take_blocks_of_their_own() -> None:
    groups = (Group(block_tokens=16), Group(block_tokens=16, most_blocks=1))
    hybrid = TokenPool(source="", quality="given", blocks=10, groups=groups, tokens=144)
    report = pool_report(hybrid, trace([0, 1], [30, 30], [2, 2]), rules=[], page_tokens=[64])
    assert report.fits[0].sequences_p50 == 3
    assert (report.fits[0].rounding_ratio, report.allocations) == (None, [])
    assert kept_blocks(report)["fragmentation, in those above"] is None
    assert "ways to allocate: several groups of layers take blocks of their own" in report.reasons


def test_requests_of_no_tokens() -> None:
    report = pool_report(given_pool(10, 16), trace([0, 1], [0, 0], [0, 0]), rules=[])
    assert report.fits[0].sequences_p50 is None


def test_sessions_have_no_load() -> None:
    made = trace([0, 1], [64, 64], [1, 16], session=["a", "b"], clock="session")
    report = pool_report(given_pool(100, 16), made, rules=[])
    assert report.alive_blocks is None
    assert report.left_blocks is None
    assert any("clock" in reason for reason in report.reasons)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(ROWS))
    ran = oomctl("capacity", "pool", str(path), "--blocks", "50", "--replicas", "2", "--json")
    assert (ran.code, ran.err) == (0, "")
    report = json.loads(ran.out)
    assert report["pool"]["tokens"] == 800
    assert report["fits"][0]["sequences_p50"] == 10
    text = oomctl("capacity", "pool", str(path), "--blocks", "50").out
    assert "SEQUENCES THAT FIT" in text
    assert "--page-tokens" in text


def test_a_measured_pool(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("INFO 03-11 02:41:40 [kv_cache_utils.py:864] GPU KV cache size: 8,000 tokens\n")
    ran = oomctl("capacity", "pool", "--measured", str(log), "--json")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert (report["pool"]["quality"], report["pool"]["tokens"], report["pool"]["blocks"]) == ("measured", 8000, 500)
    assert any("16 assumed" in reason for reason in report["reasons"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "one pool is needed"),
        (("--blocks", "9", "--ledger", "x.json"), 2, "one pool is needed"),
        (("--ledger", "missing.json"), 3, "no such file"),
        (("--measured", "missing.log"), 3, "no such file"),
        (("missing.csv", "--blocks", "9"), 3, "no such file"),
    ],
)
def test_what_is_no_pool(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    oomctl("capacity", "pool", *arguments, cwd=tmp_path).assert_fails(code, said)


def test_cohorts_as_a_user_asks(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(ROWS))
    ran = oomctl("capacity", "cohorts", str(path), "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["cohorts"][0]["prompt_tokens"]["p50"] == 62.5
    assert "TOKENS OF A REQUEST" in oomctl("capacity", "cohorts", "-", stdin=path.read_bytes()).out
    oomctl("capacity", "cohorts", str(path), "--format", "csv").assert_fails(2, "not printed as csv")
