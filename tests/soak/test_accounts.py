"""The soak's own parts, without an engine: what its peers do to the recorder's sources, and how it counts."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.http import FetchError, get
from oomctl.collectors.live.kv_events.subscriber import Subscriber
from oomctl.collectors.recorder.clock import Clock
from tests.live.peers import OK, peer
from tests.live.test_kv_events import Publisher, stored
from tests.recorder.stand_in import Time, Worker, recorder
from tests.soak.accounts import Account, accounts
from tests.soak.peers import Page, Wire


def test_a_page_that_misbehaves() -> None:
    with peer(lambda connection: connection.sendall(OK + b"\r\na 1\n")) as url:
        page = Page(url)
        assert get(page.url, 20).body == b"a 1\n"
        page.mode = "garbage"
        assert b"{{{{" in get(page.url, 20).body
        page.mode = "huge"
        reply = get(page.url, 20, max_bytes=1 << 20)
        assert (len(reply.body), reply.cut) == (1 << 20, True)
        page.mode = "hang"
        with pytest.raises(FetchError, match=r"no whole answer|timed out"):
            get(page.url, 0.3)


def test_messages_that_are_dropped_lost_and_replayed() -> None:
    publisher = Publisher()
    wire = Wire(f"tcp://127.0.0.1:{publisher.port}")
    subscriber = Subscriber(wire.endpoint, {"worker": "w"}, Clock(), wire.replay)
    total = Batch()
    number = 0

    def send() -> None:
        nonlocal number
        publisher.send(number, stored("maps", number))
        number += 1

    def until(met: Callable[[], bool], do: Callable[[], None] = lambda: None) -> None:
        end_s = time.monotonic() + 20
        while not met():
            assert time.monotonic() < end_s
            do()
            time.sleep(0.02)
            batch = subscriber.poll()
            total.rows += batch.rows
            total.losses += batch.losses

    def seen(last: int) -> bool:
        return max(wire.rows, default=(0, 0))[1] >= last

    until(lambda: bool(total.rows), send)
    first = min(int(row["kv_block"]["block_hash"], 16) for row in total.rows)
    for mode in ("drop", "lose"):
        wire.mode = mode
        until(partial(seen, number + 1), send)
        wire.mode = "pass"
        send()
        until(lambda: len(total.rows) + sum(count for _, count, _ in total.losses) == number - first)
    assert sum(count for _, count, _ in total.losses) == len(wire.lost) > 0
    assert wire.replays > 0
    subscriber.close()
    publisher.context.destroy(linger=0)


def test_records_of_rings_are_counted_and_a_missing_one_is_seen(tmp_path: Path) -> None:
    publisher = Publisher()
    worker = Worker(tmp_path / "rings")
    for step in range(5):
        worker.step(step)
    beside = recorder(tmp_path / "rec", tmp_path / "rings", Time(), 1 << 22, keep_rings=True)
    while beside.round():
        pass
    beside.close()
    wire = Wire(f"tcp://127.0.0.1:{publisher.port}")
    (of_rings, *_) = accounts(tmp_path / "rec", tmp_path / "rings", wire, [])
    assert (of_rings.expected, of_rings.recorded, of_rings.lost, of_rings.adds_up) == (10, 10, 0, True)
    worker.step(6)
    (of_rings, *_) = accounts(tmp_path / "rec", tmp_path / "rings", wire, [])
    assert not of_rings.adds_up
    assert Account("x", 5, 3, 2).adds_up
    publisher.context.destroy(linger=0)
