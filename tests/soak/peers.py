"""What stands between the engine and the recorder, and misbehaves when it is told to: a page of metrics, and a wire."""

import contextlib
import socket
import threading
import time
import urllib.request
from collections import deque
from typing import Any

import zmq

from oomctl.collectors.live.kv_events.decode import BadEvents, decode
from oomctl.collectors.live.kv_events.subscriber import END

HUGE_BYTES = 100 << 20
KEPT = 100_000


class Page:
    """Passes the engine's page of metrics on.

    Attributes:
        mode: pass, hang, garbage or huge.
        asked: How often it was asked in each mode.
    """

    def __init__(self, url: str) -> None:
        self.mode = "pass"
        self.asked: dict[str, int] = {}
        self._url = url
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/metrics"
        threading.Thread(target=self._serve, daemon=True).start()

    def point(self, url: str) -> None:
        """At another engine."""
        self._url = url

    def _serve(self) -> None:
        while True:
            peer, _ = self._server.accept()
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        mode = self.mode
        self.asked[mode] = self.asked.get(mode, 0) + 1
        with peer, contextlib.suppress(OSError):
            peer.recv(65_536)
            if mode == "hang":
                time.sleep(8)
            elif mode == "garbage":
                peer.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + bytes(range(256)) * 64 + b"\n{{{{ 1\n" * 900
                )
            elif mode == "huge":
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
                line = b'vllm:num_requests_running{model_name="tiny",x="%d"} 1\n' * 1000
                for _ in range(HUGE_BYTES // len(line)):
                    peer.sendall(line)
            else:
                with urllib.request.urlopen(self._url, timeout=10) as reply:
                    body = reply.read()
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


class Wire:
    """Passes KV events on, and replays those that it kept.

    Attributes:
        mode: pass; drop (kept, so a replay brings them); lose (for ever); garbage (beside them).
        rows: By the engine's life and the number of a message, how many rows it makes.
        lost: Those that nobody can bring back.
        garbage: How many messages that are none were sent.
    """

    def __init__(self, events: str) -> None:
        self.mode = "pass"
        self.rows: dict[tuple[int, int], int] = {}
        self.lost: set[tuple[int, int]] = set()
        self.garbage = self.replays = self._life = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._context = zmq.Context()
        self._in = self._context.socket(zmq.SUB)
        self._in.setsockopt(zmq.SUBSCRIBE, b"")
        self._in.connect(events)
        self._out, self._replay = self._context.socket(zmq.PUB), self._context.socket(zmq.ROUTER)
        self._out.setsockopt(zmq.SNDHWM, 0)
        ports = [each.bind_to_random_port("tcp://127.0.0.1") for each in (self._out, self._replay)]
        self.endpoint, self.replay = (f"tcp://127.0.0.1:{port}" for port in ports)
        threading.Thread(target=self._pass, daemon=True).start()

    def next_life(self) -> None:
        """The engine starts anew, and counts from 0 again."""
        self._life += 1
        self._kept.clear()

    def _pass(self) -> None:
        poller = zmq.Poller()
        for each in (self._in, self._replay):
            poller.register(each, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._in in ready:
                self._on(self._in.recv_multipart())
            if self._replay in ready:
                self._again(self._replay.recv_multipart())

    def _on(self, frames: list[bytes]) -> None:
        number, payload = int.from_bytes(frames[1], "big"), frames[2]
        self.rows[self._life, number] = _rows(payload)
        if self.mode == "lose":
            self.lost.add((self._life, number))
            return
        self._kept.append((number, payload))
        if self.mode == "drop":
            return
        if self.mode == "garbage":
            self.garbage += 1
            self._out.send_multipart([b"not", b"events"])
        self._out.send_multipart(frames)

    def _again(self, frames: list[bytes]) -> None:
        self.replays += 1
        start = int.from_bytes(frames[-1], "big")
        for number, payload in list(self._kept):
            if number >= start:
                self._replay.send_multipart([frames[0], b"", number.to_bytes(8, "big"), payload])
        self._replay.send_multipart([frames[0], b"", END, b""])


def _rows(payload: bytes) -> int:
    try:
        return sum(len(event.hashes) or 1 for event in decode(payload).events)
    except BadEvents:
        return 0


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: tuple[Any, int] = free.getsockname()
        return found[1]
