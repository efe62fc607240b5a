"""The targets: a name, what it does with some bytes, and where its inputs come from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.fuzz import readers, seeds

SLOW = 8


@dataclass(frozen=True)
class Target:
    """A reader under test.

    Attributes:
        name: What it is called.
        read: Takes an input; returns nothing, and raises where there is a finding.
        seeds: Good inputs.
        cost: About how much longer an input takes than most; it gets fewer of them in the quick pass.
    """

    name: str
    read: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    cost: int = 1

    @property
    def share(self) -> int:
        """Of the time of a long run: three times as much for those that are slow."""
        return 3 if self.cost >= SLOW else 1


TARGETS = {
    target.name: target
    for target in (
        Target("log", readers.log, seeds.logs, cost=10),
        Target("snapshot", readers.snapshot, seeds.snapshots, cost=2),
        Target("prometheus", readers.page, seeds.pages, cost=2),
        Target("prometheus_json", readers.iterations, seeds.iterations),
        Target("otlp_protobuf", readers.otlp_protobuf, seeds.spans_protobuf),
        Target("otlp_json", readers.otlp_json, seeds.spans_json),
        Target("kv_events", readers.kv_events, seeds.kv_messages),
        Target("kv_events_json", readers.kv_events_json, seeds.kv_json),
        Target("ring", readers.ring, seeds.rings, cost=2),
        Target("live", readers.live, seeds.live_files),
        Target("live_frame", readers.live_frame, seeds.live_payloads),
        Target("parquet", readers.parquet, seeds.parquet_files, cost=24),
        Target("toml", readers.toml, seeds.rules),
        Target("config", readers.config, seeds.configs),
        Target("trace", readers.trace, seeds.traces, cost=3),
        Target("input", readers.anything, seeds.inputs, cost=40),
        Target("redaction", readers.names, seeds.texts, cost=10),
    )
}
