"""The memory ledger of one deployment, declared once: what `oomctl ledger predict --json` prints and `diff` reads."""

from typing import Any, Literal

import msgspec

SCHEMA = "oomctl.ledger/0"
GIB = 2**30

Quality = Literal["measured", "derived", "predicted", "estimated"]
Lifetime = Literal["worker", "request", "iteration", "allocator", "headroom", "load"]
"""`load` ends with loading; `headroom` is what something that may come would take."""
Place = Literal["device", "host", "disk"]
Component = Literal[
    "weights", "adapter", "kv_pool", "activation", "logits", "workspace", "collective", "graph_pool", "transfer",
    "context", "non_torch", "other",
]  # fmt: skip


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one owner on one rank.

    Args:
        low_bytes: With `high_bytes`, the interval of an estimate, or of a figure that was printed rounded.
        reason: Why `bytes` is unknown, or why it is a lower bound.
    """

    component: Component
    lifetime: Lifetime
    owner: str
    rank: int
    bytes: int | None
    quality: Quality | None
    """None where `bytes` is None: unknown, never 0."""
    formula: str = ""
    source: str = ""
    low_bytes: int | None = None
    high_bytes: int | None = None
    lower_bound: bool = False
    reason: str = ""
    place: Place = "device"
    within: str = ""
    """The owner of the entry of this rank that holds these bytes already: said, not added again."""

    @property
    def counts(self) -> bool:
        """Whether it is device memory beside the other entries once the engine serves."""
        return self.place == "device" and not self.within and self.lifetime not in ("headroom", "load")


class KvGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that share one block table."""

    kind: str
    layers: int
    padding_layers: int
    block_tokens: int
    page_bytes: int
    """Of one layer in one block."""
    blocks_per_request: int
    """At the model's maximum length."""


class KvLayout(msgspec.Struct, frozen=True, kw_only=True):
    """How the KV pool of one rank is cut into blocks."""

    groups: tuple[KvGroup, ...]
    bytes_per_block: int
    bytes_per_token: int
    """What one more token of a long request costs; a fixed state per request is not in it."""
    blocks_per_request: int
    scale_bytes_per_token: int = 0
    """Of `bytes_per_token`, what packed keys and values keep as scales."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The KV pool that all ranks can back, in the engine's own meaning of each figure."""

    bytes: int
    blocks: int
    tokens: int
    max_concurrency: float
    starts: bool
    """Whether one request of the maximum length fits, without which the engine refuses to start."""
    spare_bytes: int
    """Per rank, beyond what that one request needs; negative: how much is short."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a release artifact, of the rank that limits; None where unknown."""

    raw_weight_gib: float | None
    measured_weight_steady_gib_per_rank: float | None
    measured_runtime_peak_gib_per_rank: float | None
    kv_kib_per_token_per_rank: float | None
    kv_pool_gib_per_rank: float | None
    headroom_gib_per_rank: float | None


class Ledger(msgspec.Struct, kw_only=True):
    """Every entry of every rank of one deployment, and what follows from them."""

    schema: str = SCHEMA
    model: str
    architecture: str
    model_hash: str | None = None
    """SHA-256 of the config that the figures come from."""
    model_revision: str | None = None
    engine: str
    engine_version: str
    engine_revision: str | None = None
    """A commit, where more than the version is known."""
    tensor_parallel: int
    pipeline_parallel: int
    weight_format: str
    kv_format: str
    device_bytes: int | None
    max_model_len: int
    arguments: dict[str, bool | int | float | str | tuple[int, ...]] = {}
    """Of the engine, by option: as given, else its default."""
    entries: list[Entry]
    kv: list[KvLayout]
    """By rank of the pipeline."""
    pool: Pool | None = None
    summary: Summary
    measured: list[Entry] = []
    """What a log or a recording of this deployment measured; never added to `entries`."""
    notes: list[str] = []
    latency_us: dict[str, float] = {}
    """Measured in the same configuration: a faster kernel may need more workspace."""

    def total(self, component: Component, rank: int = 0) -> int | None:
        """Bytes that a component holds of a rank's device; None if one of its entries is unknown, or if there is none."""
        own = [entry for entry in self.entries if entry.component == component and entry.rank == rank]
        found = [entry.bytes for entry in own if entry.counts]
        known = [value for value in found if value is not None]
        return sum(known) if found and len(known) == len(found) else None


def ledger_schema() -> dict[str, Any]:
    """JSON Schema of the output of `oomctl ledger predict --json`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        **msgspec.json.schema(Ledger),
    }
