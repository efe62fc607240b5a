"""TensorRT-LLM's KV events, asked for over HTTP: taken once, holes counted, nonsense told."""

import json
from typing import Any

import pytest

from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.http import Reply
from oomctl.collectors.live.kv_events import decode
from oomctl.collectors.live.kv_events import polled as module
from oomctl.collectors.live.kv_events.polled import PERIOD_S, Polled
from tests.live.clock import Time

URL = "http://h:8000/kv_cache_events"


def stored(number: int, block: int) -> dict[str, Any]:
    blocks = [{"type": "stored_block", "block_hash": block, "tokens": [{"token_id": 7_777_777}] * 32, "cache_level": 0}]
    return {"event_id": number, "data": {"type": "stored", "parent_hash": None, "blocks": blocks}}


class Bench:
    """A server's answers in turn, and who asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.left, self.asked = list(answers), list[tuple[str, str]]()
        monkeypatch.setattr(module, "get", self.get)
        self.time = Time()
        self.polled = Polled(URL, {"worker": "w"}, self.time)

    def get(self, url: str, deadline_s: float, method: str) -> Reply:
        self.asked.append((method, url))
        answer = self.left.pop(0)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return Reply(200 if answer != b"404" else 404, body, False, "application/json")

    def next(self) -> Batch:
        self.time.now_s += PERIOD_S
        self.polled.poll()
        running = self.polled._running
        assert running is not None and running.wait(10)
        return self.polled.poll()


def test_events_become_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    removed = {"event_id": 3, "data": {"type": "removed", "block_hashes": [5]}}
    created = {"event_id": 0, "data": {"type": "created", "num_blocks_per_cache_level": [100]}}
    bench = Bench(monkeypatch, [created, stored(1, 5), stored(2, 6)], [removed])
    first = bench.next()
    assert bench.asked == [("POST", URL)]
    assert [(row["kind"], row["kv_block"]["op"], row["kv_block"]["tokens"]) for row in first.rows] == [
        ("kv_block", "stored", 32),
        ("kv_block", "stored", 32),
    ]
    assert not first.losses and first.notes == [("ok", f"{URL}: KV events")]
    second = bench.next()
    assert [row["kind"] for row in second.rows] == ["kv_block", "kv_pool"]
    assert second.rows[1]["kv_pool"]["prefix_evicted_tokens"] == 32
    assert bench.polled.resident.hashes() == {f"{6:016x}"}


def test_a_hole_is_counted_and_a_restart_told(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, [stored(1, 5)], [stored(4, 6)], [stored(0, 7)])
    bench.next()
    assert [count for _, count, _ in bench.next().losses] == [2]
    assert bench.polled.resident.hashes() == {f"{6:016x}"}, "what was there before the hole is not known any more"
    assert len(bench.next().restarts) == 1


def test_an_answer_of_a_million_blocks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN 2 bytes a block, in one event and in many THEN no more rows than MAX_HASHES at a time, the rest is counted."""
    for each in (decode, module):
        monkeypatch.setattr(each, "MAX_HASHES", 10)
    reply = [{"event_id": 1, "data": {"type": "removed", "block_hashes": [1] * 11}}]
    reply += [{"event_id": n, "data": {"type": "removed", "block_hashes": [1] * 5}} for n in range(2, 9)]
    batch = Batch()
    Polled(URL, {}, Time())._take(Reply(200, json.dumps(reply).encode(), False, ""), batch)
    assert len(batch.rows) == 10
    assert batch.losses == [("KV event that was not read", 1 + 5, URL)]


@pytest.mark.parametrize("body", [b"{}", b"", b"\xff", b"[" * 100_000, b"404"])
def test_what_is_no_list_is_told_once(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    bench = Bench(monkeypatch, body, body, [stored(1, 5), 3, {"event_id": 2, "data": {"type": "unheard"}}])
    assert [state for state, _ in bench.next().notes] == ["degraded"]
    assert not bench.next().notes
    batch = bench.next()
    assert len(batch.rows) == 1 and [count for _, count, _ in batch.losses] == [2]
