"""Follows an engine's KV events over ZeroMQ: never waits, notices gaps, and has them replayed where the engine can."""

from typing import Any

import zmq

from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.kv_events.decode import MAX_PAYLOAD_BYTES, BadEvents, decode
from oomctl.collectors.live.kv_events.index import Index

ROUND_MESSAGES = 2_000
ROUND_ROWS = 50_000
"""About; the next round takes the rest. A frame of the recorder has to hold what one round brings."""
HIGH_WATER = 10_000
"""Messages that wait for us; what comes beyond is dropped by the publisher's side and seen as a gap."""
REPLAY_S = 5.0
"""A publisher answers a replay between two of its own messages; one that does not in this time never will."""
END = (-1).to_bytes(8, "big", signed=True)


class Subscriber:
    """Follows one publisher. Its stream's mark is the number of the last message, so the next recorder sees what it missed.

    Args:
        endpoint: Where it publishes (tcp://127.0.0.1:5557).
        common: The common columns: node, worker, incarnation.
        clock: `monotonic_s()` and `wall_us()`.
        replay: Where it replays, or None.
    """

    def __init__(self, endpoint: str, common: dict[str, Any], clock: Any, replay: str | None = None) -> None:
        self.endpoint = endpoint
        self.name = f"kv_events {endpoint}"
        self._index = Index(endpoint, common, clock)
        self.stream = self._index.stream
        self.resident = self._index.resident
        self._clock = clock
        self._held: list[tuple[int, bytes]] = []
        self._asked_s: float | None = None
        self._context = zmq.Context()
        self._socket = self._connect(zmq.SUB, endpoint)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._replay = self._connect(zmq.DEALER, replay) if replay else None

    def poll(self) -> Batch:
        """Take what there is, at most ROUND_MESSAGES of it."""
        batch = Batch()
        for _ in range(ROUND_MESSAGES):
            if len(batch.rows) >= ROUND_ROWS:
                break
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if len(frames) != 3 or len(frames[1]) != 8:
                batch.losses.append(("message that is no KV event", 1, self.endpoint))
                continue
            self._arrived(int.from_bytes(frames[1], "big"), frames[2], batch)
        if self._asked_s is not None:
            self._take_replay(batch)
        batch.rows += self._index.evicted()
        return batch

    def close(self) -> None:
        """Hang up."""
        self._context.destroy(linger=0)

    def _arrived(self, seq: int, payload: bytes, batch: Batch) -> None:
        if self._asked_s is not None:
            # What came behind a gap waits until the gap is filled or given up: the order of events is their meaning.
            self._held.append((seq, payload))
            if len(self._held) >= HIGH_WATER:
                self._give_up(batch)
            return
        if self.stream.mark is not None and seq <= self.stream.mark:
            batch.restarts.append(f"{self.endpoint}: events count from {seq} again")
            self.resident.forget()
        elif self.stream.mark is not None and seq > self.stream.mark + 1:
            if self._replay is not None:
                self._replay.send_multipart([b"", (self.stream.mark + 1).to_bytes(8, "big")])
                self._asked_s = self._clock.monotonic_s()
                self._held = [(seq, payload)]
                return
            self._lose(seq - self.stream.mark - 1, batch)
        self._apply(seq, payload, batch)

    def _take_replay(self, batch: Batch) -> None:
        """What came of a replay: (topic, number, payload), in some versions without the topic, up to an end marker."""
        assert self._replay is not None and self._asked_s is not None
        first_held = self._held[0][0]
        for _ in range(ROUND_MESSAGES):
            try:
                frames = self._replay.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if len(frames) < 3 or len(frames[-2]) != 8:
                continue
            if frames[-2] == END:
                self._give_up(batch)
                return
            seq = int.from_bytes(frames[-2], "big")
            if self.stream.mark is not None and self.stream.mark < seq < first_held:
                if seq > self.stream.mark + 1:
                    self._lose(seq - self.stream.mark - 1, batch)
                self._apply(seq, frames[-1], batch)
        if self._clock.monotonic_s() - self._asked_s >= REPLAY_S:
            self._give_up(batch)

    def _give_up(self, batch: Batch) -> None:
        """The replay is over: what it did not bring is lost, and what waited goes on."""
        held, self._held, self._asked_s = self._held, [], None
        for number, (seq, payload) in enumerate(held):
            self._arrived(seq, payload, batch)
            if self._asked_s is not None:
                if number == 0 and self.stream.mark is not None:
                    # The same gap again: it cannot be filled.
                    self._asked_s = None
                    self._held = []
                    self._lose(seq - self.stream.mark - 1, batch)
                    self._apply(seq, payload, batch)
                    continue
                self._held += held[number + 1 :]
                return

    def _lose(self, count: int, batch: Batch) -> None:
        batch.losses.append(("KV events that were not received", count, f"{self.endpoint}: gap in their numbers"))
        self.resident.forget()

    def _apply(self, seq: int, payload: bytes, batch: Batch) -> None:
        self.stream.mark = seq
        try:
            events = decode(payload)
        except BadEvents as error:
            batch.losses.append(("message that is no KV event", 1, f"{self.endpoint}: {error}"[:200]))
            return
        if events.unknown:
            batch.losses.append(("KV event of an unknown type", events.unknown, self.endpoint))
        batch.rows += self._index.take(events)

    def _connect(self, kind: int, endpoint: str) -> Any:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
        socket.setsockopt(zmq.LINGER, 0)
        # A larger message breaks the connection before it is read.
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_PAYLOAD_BYTES)
        socket.connect(endpoint)
        return socket
