"""KV events in every form that was seen, over a real socket, with gaps, floods and nonsense."""

import contextlib
import itertools
import json
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.kv_events import subscriber as module
from oomctl.collectors.live.kv_events.decode import BadEvents, Event, decode, hex_of, of_json
from oomctl.collectors.live.kv_events.resident import Resident
from oomctl.collectors.live.kv_events.subscriber import END, REPLAY_S, Subscriber
from tests.live.clock import Time
from tests.shared import shared

pack = msgspec.msgpack.encode
TOKENS = [7, 7_777_777, 9]


def stored(form: str, *hashes: int, size: int = 16) -> bytes:
    if form == "arrays":
        return pack([1_700_000_000.5, [["BlockStored", list(hashes), 5, TOKENS, size, None, "GPU", None]], 1])
    event = {
        "type": "BlockStored", "block_hashes": list(hashes), "parent_block_hash": 5, "token_ids": TOKENS,
        "block_size": size, "medium": "GPU", "group_idx": 0,
    }  # fmt: skip
    if form == "maps":
        return pack([1_700_000_000.5, [event], 1])
    return pack({"ts": 1_700_000_000.5, "events": [event], "data_parallel_rank": 1})


@pytest.mark.parametrize("form", ["arrays", "maps", "map of maps"])
def test_three_forms_say_the_same(form: str) -> None:
    batch = decode(stored(form, 1, -1))
    (event,) = batch.events
    assert (batch.ts_us, batch.rank, batch.unknown) == (1_700_000_000_500_000, 1, 0)
    assert (event.op, event.hashes, event.parent) == ("stored", (f"{1:016x}", "f" * 16), f"{5:016x}")
    assert (event.block_tokens, event.medium) == (16, "device")
    assert "7777777" not in repr(batch), "token ids are prompt content"


def test_a_hash_is_the_same_signed_and_unsigned() -> None:
    assert hex_of(-1) == hex_of(2**64 - 1)
    assert hex_of(b"\x01\xff") == "01ff"
    assert hex_of("-1") == hex_of(-1)
    assert hex_of(1.5) is hex_of(None) is hex_of(True) is hex_of(b"x" * 65) is None
    assert hex_of("\u00b2") is hex_of("--1") is hex_of("-") is None


def test_sizes_that_the_event_table_cannot_hold_are_not_told() -> None:
    assert decode(stored("maps", 1, size=2**63)).events[0].block_tokens is None


def test_tensorrt_llm_and_dynamo() -> None:
    block = {"type": "stored_block", "block_hash": 3, "tokens": [{"token_id": 7_777_777}] * 32, "cache_level": 1}
    batch = of_json(
        {"event_id": 1, "data": {"type": "stored", "parent_hash": 2, "blocks": [block]}, "attention_dp_rank": 4}
    )
    assert batch.rank == 4
    assert batch.events == (Event("stored", (f"{3:016x}",), f"{2:016x}", 32, "host"),)
    moved = of_json({"data": {"type": "updated", "block_hash": 3, "cache_level": {"old_value": 0, "new_value": 1}}})
    assert [(event.op, event.medium) for event in moved.events] == [("removed", "device"), ("stored", "host")]
    router = {
        "worker_id": 1,
        "event": {"event_id": 2, "data": {"removed": {"block_hashes": [3]}}},
        "storage_tier": "HostPinned",
    }
    assert of_json(router).events == (Event("removed", (f"{3:016x}",), medium="host"),)
    with pytest.raises(BadEvents):
        of_json({"other": 1})


@given(st.binary(max_size=60))
def test_any_bytes_are_events_or_refused(payload: bytes) -> None:
    with contextlib.suppress(BadEvents):
        decode(payload)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["BlockStored", "type"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_message_is_events_or_refused(message: Any) -> None:
    with contextlib.suppress(BadEvents):
        decode(pack([1.0, [message], 0]))
    for wrapped in ({"data": message}, {"event": message}, {"event": {"data": message}}):
        with contextlib.suppress(BadEvents):
            of_json(wrapped)


def test_depth() -> None:
    with pytest.raises(BadEvents):
        decode(b"\x91" * 100_000)


def test_what_is_resident() -> None:
    resident = Resident()
    resident.take(Event("stored", ("a", "b"), None, 16, "device", "0"))
    resident.take(Event("stored", ("a",), None, 16, "host", "0"))
    assert resident.blocks() == {("device", "0"): 2, ("host", "0"): 1}
    resident.take(Event("removed", ("a", "unseen"), medium="device", group_id="0"))
    assert resident.blocks() == {("device", "0"): 1, ("host", "0"): 1}
    assert resident.evicted_tokens == {("device", "0"): 16}
    resident.take(Event("cleared"))
    assert not resident.blocks()


def test_a_block_is_resident_until_its_last_copy_is_gone() -> None:
    """As vLLM 0.32's BlockPool does it: of two blocks of the same tokens each is stored, and each removed."""
    resident, removed = Resident(), Event("removed", ("b",), medium="device", group_id="0")
    resident.take(Event("stored", ("a", "b"), None, 16, "device", "0"))
    for _ in range(2):
        resident.take(Event("stored", ("b",), "a", 16, "device", "0"))
    counts = []
    for _ in range(4):
        counts.append((resident.blocks()["device", "0"], "b" in resident.hashes()))
        resident.take(removed)
    assert counts == [(4, True), (3, True), (2, True), (1, False)]
    assert resident.evicted_tokens == {("device", "0"): 48}


def recorded(name: str) -> Iterator[bytes]:
    """The payloads of a recording: a 4-byte length before each (data/engine/README.md)."""
    data = shared("data/engine").joinpath(name).read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">I" if data[at] == 0 else "<I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


@pytest.mark.parametrize("name", ["kv_events", "sglang/kv_events"])
def test_recorded_events(name: str) -> None:
    lines = shared("data/engine").joinpath(f"{name}.jsonl").read_text().splitlines()
    resident, largest, evicted = Resident(), 0, 0
    for line, payload in zip(lines, recorded(f"{name}.raw"), strict=True):
        message = json.loads(line)
        batch = decode(payload)
        assert batch.unknown == 0 and len(batch.events) == len(message["payload"][1])
        if message["seq"] == 0:
            resident = Resident()
        for event in batch.events:
            resident.take(event)
            evicted += len(event.hashes) if event.op == "removed" else 0
        largest = max(largest, *resident.blocks().values())
    assert evicted > 0 and resident.unknown_tokens == 0
    # SGLang's pool of that run: max_total_num_tokens 2048 with pages of one token; vLLM's had fewer than 512 blocks.
    assert 0 < largest <= 2048


class Publisher:
    """An engine's side of the wire."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.out = self.context.socket(zmq.PUB)
        self.port = self.out.bind_to_random_port("tcp://127.0.0.1")
        self.back = self.context.socket(zmq.ROUTER)
        self.back_port = self.back.bind_to_random_port("tcp://127.0.0.1")
        self.sent: dict[int, bytes] = {}

    def send(self, seq: int, payload: bytes, keep: bool = True) -> None:
        self.sent[seq] = payload
        if keep:
            self.out.send_multipart([b"kv-events", seq.to_bytes(8, "big"), payload])

    def replay(self, topic: bool = True, end: bool = True) -> None:
        assert self.back.poll(5000), "nobody asked for a replay"
        client, empty, start = self.back.recv_multipart()
        assert empty == b""
        for seq, payload in self.sent.items():
            if seq >= int.from_bytes(start, "big"):
                self.back.send_multipart([client, b"", *([b"kv-events"] if topic else []), seq.to_bytes(8, "big"), payload])
        if end:
            self.back.send_multipart([client, b"", b"", END, b""])


class Wire:
    """A publisher and a subscriber that have found each other."""

    def __init__(self, replay: bool) -> None:
        self.publisher, self.time = Publisher(), Time()
        back = f"tcp://127.0.0.1:{self.publisher.back_port}" if replay else None
        self.subscriber = Subscriber(f"tcp://127.0.0.1:{self.publisher.port}", {"worker": "w"}, self.time, back)
        self.total = Batch()
        # A subscription takes a moment to arrive; what is sent before is not for us.
        self.until(lambda: bool(self.total.rows), lambda: self.publisher.send(0, stored("maps", 0)))
        time.sleep(0.05)
        self.take()
        self.total = Batch()

    def take(self) -> None:
        batch = self.subscriber.poll()
        for name in ("rows", "notes", "losses", "restarts"):
            getattr(self.total, name).extend(getattr(batch, name))

    def until(self, met: Callable[[], bool], do: Callable[[], None] = lambda: None) -> None:
        end_s = time.monotonic() + 20
        while not met():
            assert time.monotonic() < end_s, f"never came; so far {len(self.total.rows)} rows, {self.total.losses}"
            do()
            time.sleep(0.01)
            self.take()

    def hashes(self) -> list[int]:
        return [int(row["kv_block"]["block_hash"], 16) for row in self.total.rows if row["kind"] == "kv_block"]


@pytest.fixture(params=[False, True], ids=["no replay", "replay"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    made = Wire(request.param)
    yield made
    made.subscriber.close()
    made.publisher.context.destroy(linger=0)


def test_in_order(wire: Wire) -> None:
    for seq in (1, 2, 3):
        wire.publisher.send(seq, stored("maps", seq))
    wire.until(lambda: len(wire.hashes()) == 3)
    assert wire.hashes() == [1, 2, 3]
    assert not wire.total.losses
    row = wire.total.rows[0]
    assert (row["source"], row["rank_name"], row["kv_block"]["tokens"]) == ("kv_events", "DP1", 16)


@pytest.mark.parametrize("wire", [True], indirect=True)
@pytest.mark.parametrize("topic", [True, False])
def test_a_gap_is_replayed_in_order(wire: Wire, topic: bool) -> None:
    wire.publisher.send(1, stored("maps", 1))
    wire.publisher.send(2, stored("maps", 2), keep=False)
    wire.publisher.send(3, stored("maps", 3), keep=False)
    wire.publisher.send(4, stored("maps", 4))
    wire.until(lambda: wire.hashes() == [1])
    wire.publisher.replay(topic)
    wire.until(lambda: len(wire.hashes()) == 4)
    assert wire.hashes() == [1, 2, 3, 4]
    assert not wire.total.losses
    assert sum(wire.subscriber.resident.blocks().values()) == 5


@pytest.mark.parametrize("wire", [True], indirect=True)
def test_a_replay_that_lacks_a_part(wire: Wire) -> None:
    wire.publisher.send(1, stored("maps", 1))
    wire.publisher.send(3, stored("maps", 3), keep=False)
    wire.publisher.send(4, stored("maps", 4))
    wire.until(lambda: wire.hashes() == [1])
    wire.publisher.replay()
    wire.until(lambda: len(wire.hashes()) == 3)
    assert [count for _, count, _ in wire.total.losses] == [1]


@pytest.mark.parametrize("wire", [True], indirect=True)
def test_a_replay_that_never_comes(wire: Wire) -> None:
    wire.publisher.send(1, stored("maps", 1))
    wire.publisher.send(5, stored("maps", 5))
    wire.publisher.send(6, stored("maps", 6))
    wire.until(lambda: wire.hashes() == [1] and len(wire.subscriber._held) == 2)
    wire.time.now_s += REPLAY_S
    wire.until(lambda: len(wire.hashes()) == 3)
    assert wire.hashes() == [1, 5, 6]
    assert [count for _, count, _ in wire.total.losses] == [3]


@pytest.mark.parametrize("wire", [False], indirect=True)
def test_a_gap_without_replay_is_counted_and_nothing_is_believed_resident(wire: Wire) -> None:
    wire.publisher.send(1, stored("maps", 1))
    wire.publisher.send(8, stored("maps", 8))
    wire.until(lambda: len(wire.hashes()) == 2)
    assert [count for _, count, _ in wire.total.losses] == [6]
    assert sum(wire.subscriber.resident.blocks().values()) == 1


def test_the_next_recorder_learns_what_was_missed(wire: Wire) -> None:
    """GIVEN messages that came while nobody listened THEN the next subscriber has them replayed, or counts them."""
    at = wire.subscriber.stream.at()
    wire.subscriber.close()
    wire.publisher.send(1, stored("maps", 1), keep=False)
    back = f"tcp://127.0.0.1:{wire.publisher.back_port}" if wire.subscriber._replay is not None else None
    wire.subscriber = Subscriber(f"tcp://127.0.0.1:{wire.publisher.port}", {"worker": "w"}, wire.time, back)
    wire.subscriber.stream.resume(at)
    numbers = itertools.count(2)

    def send() -> None:
        seq = next(numbers)
        wire.publisher.send(seq, stored("maps", seq))

    wire.until(lambda: bool(wire.total.losses) or wire.subscriber._asked_s is not None, send)
    if back is not None:
        wire.publisher.replay()
    wire.until(lambda: len(wire.hashes()) + sum(count for _, count, _ in wire.total.losses) == max(wire.publisher.sent))
    assert (wire.hashes()[0] == 1) == (back is not None)
    assert bool(wire.total.losses) == (back is None)


def test_a_restart(wire: Wire) -> None:
    wire.publisher.send(1, stored("maps", 1))
    wire.publisher.send(0, stored("maps", 9))
    wire.until(lambda: len(wire.hashes()) == 2)
    assert len(wire.total.restarts) == 1
    assert sum(wire.subscriber.resident.blocks().values()) == 1


def test_eviction_is_counted_in_tokens(wire: Wire) -> None:
    wire.publisher.send(1, stored("maps", 1, 2, 3))
    wire.publisher.send(2, pack([1.0, [{"type": "BlockRemoved", "block_hashes": [1, 2], "medium": "GPU"}], 0]))
    wire.until(lambda: any(row["kind"] == "kv_pool" for row in wire.total.rows))
    pool = next(row for row in wire.total.rows if row["kind"] == "kv_pool")
    assert (pool["kv_pool"]["prefix_evicted_tokens"], pool["quality"]) == (32, "derived")


def test_nonsense_is_counted_and_the_rest_goes_on(wire: Wire) -> None:
    wire.publisher.out.send_multipart([b"only one"])
    wire.publisher.out.send_multipart([b"a", b"short", b"b"])
    wire.publisher.send(1, b"\xc1not msgpack")
    wire.publisher.send(2, pack([1.0, [{"type": "Unheard"}], 0]))
    wire.publisher.send(3, stored("maps", 3))
    wire.until(lambda: wire.hashes() == [3])
    assert len(wire.total.losses) == 4


def test_a_flood_is_taken_in_rounds(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUND_MESSAGES", 100)
    for seq in range(1, 1001):
        wire.publisher.send(seq, stored("maps", seq))
    time.sleep(0.3)
    assert len([row for row in wire.subscriber.poll().rows if row["kind"] == "kv_block"]) <= 100
