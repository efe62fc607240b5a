"""TensorRT-LLM's iteration statistics, written from the keys that its own collector reads."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomctl.collectors.live.http import Reply
from oomctl.collectors.live.prometheus import trtllm_json as module
from oomctl.collectors.live.prometheus.facts import Whose
from oomctl.collectors.live.prometheus.scraper import Scraper
from oomctl.collectors.live.prometheus.trtllm_json import read
from tests.live.clock import Time

RECORD = {
    "iter": 7, "iterLatencyMS": 12.5, "numQueuedRequests": 3, "gpuMemUsage": 6 << 30, "pinnedMemUsage": 4096,
    "attentionDpRank": 1,
    "kvCacheStats": {"maxNumBlocks": 100, "freeNumBlocks": 60, "usedNumBlocks": 40, "tokensPerBlock": 32},
    "inflightBatchingStats": {"numCtxTokens": 512, "numScheduledRequests": 9, "numGenRequests": 8},
}  # fmt: skip


def test_a_record() -> None:
    facts, skipped = read(json.dumps([RECORD, 3, {"cpuMemUsage": 1}]).encode())
    assert skipped == 1
    assert {fact.whose for fact in facts} == {Whose("DP1")}
    by_kind = {(fact.kind, fact.quality): fact.fields for fact in facts}
    assert by_kind["step", "measured"] == {
        "prefill_tokens": 512, "running_requests": 9, "step_id": 7, "waiting_requests": 3, "duration_us": 12_500,
    }  # fmt: skip
    assert by_kind["kv_pool", "measured"]["used_blocks"] == 40
    assert by_kind["kv_pool", "derived"] == {"used_tokens": 1280, "total_tokens": 3200}
    assert by_kind["memory", "measured"]["bytes"] == 6 << 30
    assert by_kind["host", "measured"] == {"pinned_bytes": 4096}


def test_what_is_not_known_is_null() -> None:
    facts, _ = read(json.dumps([{**RECORD, "gpuMemUsage": -1, "kvCacheStats": None, "iterLatencyMS": "x"}]).encode())
    assert {fact.kind for fact in facts} == {"step", "host"}
    assert "duration_us" not in facts[0].fields


def test_of_many_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 2)
    facts, skipped = read(json.dumps([{"iter": number} for number in range(5)]).encode())
    assert ([fact.fields["step_id"] for fact in facts], skipped) == ([3, 4], 3)


@pytest.mark.parametrize("body", [b"{}", b"[" * 100_000, b"", b"\xff", b"3"])
def test_what_is_none(body: bytes) -> None:
    with pytest.raises(ValueError, match="no "):
        read(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just(1e400),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*RECORD, "usedNumBlocks"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_nothing_else_raises(record: Any) -> None:
    read(json.dumps([record]).encode())


def test_the_scraper_tells_it_by_its_looks() -> None:
    time = Time()
    scraper = Scraper("http://h/metrics", {"worker": "w"}, time, fetch=lambda url, deadline_s: Reply(
        200, json.dumps([RECORD]).encode(), False, "application/json"))  # fmt: skip
    scraper.poll()
    running = scraper._running
    assert running is not None and running.wait(10)
    batch = scraper.poll()
    assert [row["kind"] for row in batch.rows] == ["step", "kv_pool", "kv_pool", "memory", "host"]
    assert batch.notes == [("ok", "http://h/metrics: trtllm, iteration statistics")]
