"""From events to rows: each change of an engine's cache index, and what was evicted so far."""

from typing import Any

from oomctl.collectors.live.kv_events.decode import EventBatch
from oomctl.collectors.live.kv_events.resident import Place, Resident
from oomctl.collectors.live.stream import Stream
from oomctl.schemas.rows import Row


class Index:
    """An engine's cache index, as its events tell it.

    Args:
        name: Of the stream: where the events come from.
        common: The common columns: node, worker, incarnation.
        clock: `wall_us()`.

    Attributes:
        stream: Its rows' numbers.
        resident: Which blocks are there.
    """

    def __init__(self, name: str, common: dict[str, Any], clock: Any) -> None:
        self.stream = Stream(name, "kv_events", common)
        self.resident = Resident()
        self._clock = clock
        self._told: dict[Place, int] = {}

    def take(self, batch: EventBatch) -> list[Row]:
        """Apply a message; a row per block that it names."""
        rank = {"rank_name": f"DP{batch.rank}"} if batch.rank else {}
        ts = batch.ts_us or self._clock.wall_us()
        rows = []
        for event in batch.events:
            self.resident.take(event)
            parent = event.parent
            for found in event.hashes or (None,):
                fields = {
                    "op": event.op,
                    "block_hash": found,
                    "parent_hash": parent,
                    "tokens": event.block_tokens,
                    "medium": event.medium,
                    "group_id": event.group_id,
                }
                parent = found if event.op == "stored" else None
                rows.append(self.stream.row(ts, "kv_block", fields, rank))
        return rows

    def evicted(self) -> list[Row]:
        """A row per place whose evicted tokens have grown since the last call."""
        evicted = self.resident.evicted_tokens
        grown = [(place, tokens) for place, tokens in evicted.items() if tokens != self._told.get(place)]
        self._told = dict(evicted)
        return [
            self.stream.row(
                self._clock.wall_us(),
                "kv_pool",
                {"tier": place[0], "group_id": place[1], "prefix_evicted_tokens": tokens},
                {"quality": "derived"},
            )
            for place, tokens in grown
        ]
