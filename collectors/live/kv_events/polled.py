"""TensorRT-LLM's KV events: `trtllm-serve` hands out what came since the last call (POST /kv_cache_events), as JSON.

Whoever asks takes them away from whoever asks next, such as a router. So it is asked only where a person says so.
"""

import json
from functools import partial
from typing import Any

from oomctl.collectors.live.background import Call
from oomctl.collectors.live.batch import Batch, Standing
from oomctl.collectors.live.http import FetchError, Reply, get
from oomctl.collectors.live.kv_events.decode import MAX_HASHES, BadEvents, of_json
from oomctl.collectors.live.kv_events.index import Index

PERIOD_S = 2.0
DEADLINE_S = 3.0


class Polled(Standing):
    """Asks one server.

    Args:
        url: Where (http://127.0.0.1:8000/kv_cache_events).
        common: The common columns: node, worker, incarnation.
        clock: `monotonic_s()` and `wall_us()`.
    """

    def __init__(self, url: str, common: dict[str, Any], clock: Any) -> None:
        super().__init__()
        self.name = f"kv_events {url}"
        self._url = url
        self._clock = clock
        self._index = Index(url, common, clock)
        self.stream = self._index.stream
        self.resident = self._index.resident
        self._next_s = clock.monotonic_s()
        self._last: int | None = None
        self._running: Call[Reply] | None = None

    def poll(self) -> Batch:
        """What came since the last call; asks when it is time to. Never waits."""
        batch = Batch()
        if self._running is not None and self._running.done:
            running, self._running = self._running, None
            try:
                self._take(running.result(), batch)
            except (FetchError, ValueError, RecursionError) as error:
                self._turn("failed", f"{self._url}: {error}"[:300], batch)
        if self._running is None and self._clock.monotonic_s() >= self._next_s:
            self._next_s = self._clock.monotonic_s() + PERIOD_S
            self._running = Call(partial(get, self._url, DEADLINE_S, method="POST"), "oomctl-kv-events")
        batch.rows += self._index.evicted()
        return batch

    def close(self) -> None:
        """A question that is out ends by itself, within its deadline."""

    def _take(self, reply: Reply, batch: Batch) -> None:
        if reply.status != 200:
            raise ValueError(f"status {reply.status}")
        told = json.loads(reply.body)
        if not isinstance(told, list):
            raise ValueError("no list of events")
        self._turn("ok", f"{self._url}: KV events", batch)
        skipped = 0
        for number, message in enumerate(told):
            if len(batch.rows) >= MAX_HASHES:
                skipped += len(told) - number
                break
            try:
                events = of_json(message)
            except BadEvents:
                skipped += 1
                continue
            skipped += events.unknown
            self._count(message.get("event_id"), batch)
            batch.rows += self._index.take(events)
        if skipped:
            batch.losses.append(("KV event that was not read", skipped, self._url))

    def _count(self, number: Any, batch: Batch) -> None:
        """Events are numbered: a hole is what the server's queue dropped, or what somebody else was given."""
        if not isinstance(number, int):
            return
        if self._last is not None and number > self._last + 1:
            batch.losses.append(("KV events that were not received", number - self._last - 1, f"{self._url}: gap"))
            self.resident.forget()
        elif self._last is not None and number <= self._last:
            batch.restarts.append(f"{self._url}: events count from {number} again")
            self.resident.forget()
        self._last = number
