"""The verdict of `oomctl triage`, declared once: the JSON output, its JSON Schema and the renderers use these types."""

from typing import Any, Literal

import msgspec

SCHEMA = "oomctl.triage/0"

OomClass = Literal["load_time", "warm_up", "prefill_spike", "decode_growth", "fragmentation", "recovery"]
Verdict = Literal["oom", "capacity_gate", "not_oom"]
Resource = Literal["device", "kv_blocks", "host", "slots", "driver"]
InputFormat = Literal["log", "parquet", "jsonl", "csv", "live", "snapshot", "otlp"]
Quality = Literal["measured", "derived", "predicted", "estimated", "simulated"]

CODES: dict[OomClass, str] = {
    "load_time": "OOM001",
    "warm_up": "OOM002",
    "prefill_spike": "OOM003",
    "decode_growth": "OOM004",
    "fragmentation": "OOM005",
    "recovery": "OOM006",
}
"""Stable, never reused."""


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A row that bears a statement. `file` and `line` where its source is a text; `text` is that line as it stands."""

    stream: str
    seq: int
    query: str
    """The evidence query (queries/evidence/NAME.sql) that returned the row."""
    file: str | None = None
    line: int | None = None
    text: str | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One statement for or against the verdict, with the rows that bear it."""

    says: str
    supports: str
    """What it is evidence of: a class, a cause, a resource, or "survived"."""
    weight: float
    """0 to 1: how much the statement alone would convince."""
    cites: tuple[Citation, ...]


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A link of the cause chain, the first one being what to mend."""

    cause: str
    bytes: int | None = None
    tokens: int | None = None
    detail: str = ""
    cites: tuple[Citation, ...] = ()


class Alternative(msgspec.Struct, frozen=True, kw_only=True, rename={"oom_class": "class"}):
    """What else it might have been, and what speaks for it."""

    oom_class: OomClass | None = None
    code: str | None = None
    what: str = ""
    """In words, where it is none of the classes."""
    confidence: float
    why: str


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What was not recorded, and which collector would have told."""

    what: str
    collector: str
    command: str | None = None
    """A command to run now that would still tell, where there is one."""


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do, with its arithmetic."""

    when: Literal["now", "change"]
    action: str
    """A sentence for a tired reader."""
    setting: str | None = None
    """The flag or variable as typed, with its new value."""
    frees_bytes: int | None = None
    short_bytes: int | None = None
    arithmetic: str = ""
    quality: Quality = "derived"


class MemoryNode(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the reconciled ledger. Children sum to `bytes` by construction of the `unexplained` child."""

    name: str
    bytes: int | None
    quality: Quality | None = None
    """None where bytes is None: unknown, with the reason in `note`."""
    resolution_bytes: int | None = None
    note: str = ""
    cites: tuple[Citation, ...] = ()
    children: tuple["MemoryNode", ...] = ()


class Cohort(msgspec.Struct, frozen=True, kw_only=True):
    """Who was in the batch and in the queue when it happened."""

    running_requests: int | None = None
    waiting_requests: int | None = None
    scheduled_tokens: int | None = None
    prefill_tokens: int | None = None
    kv_usage_ratio: float | None = None
    kv_total_tokens: int | None = None
    kv_used_tokens: int | None = None
    requests: tuple[dict[str, Any], ...] = ()
    cites: tuple[Citation, ...] = ()


class AllocatorPool(msgspec.Struct, frozen=True, kw_only=True):
    """One pool of the allocator: reserved = active + inactive."""

    pool: str
    stream: int
    size_class: str
    reserved_bytes: int
    active_bytes: int
    inactive_bytes: int
    releasable_bytes: int
    """Of inactive: what a flush of the cache gives back to the device; the rest lies in holes."""
    largest_free_block_bytes: int


class FitMargin(msgspec.Struct, frozen=True, kw_only=True):
    """What undoing one cause on paper gives back; None where that was not observed."""

    cause: str
    reclaim_bytes: int | None
    sufficient: bool | None


class AllocatorState(msgspec.Struct, frozen=True, kw_only=True):
    """The allocator at that instant, from the failure's own message; what is below `note`, from its snapshot."""

    requested_bytes: int | None = None
    device_free_bytes: int | None = None
    allocated_bytes: int | None = None
    """Corrected: the printed figure less the free blocks of private pools that it includes."""
    cached_free_bytes: int | None = None
    """Reserved but unallocated, outside private pools (the printed figure, which already excludes them)."""
    private_pool_free_bytes: int | None = None
    fits_in_cache: bool | None = None
    """Whether the sum of cached free bytes would have held the request; a necessary sign of fragmentation only."""
    note: str = ""
    reserved_bytes: int | None = None
    pending_bytes: int | None = None
    inactive_bytes: int | None = None
    largest_free_block_bytes: int | None = None
    """In the pool, stream and size class of the request; of all pools where that is not known."""
    why: str | None = None
    """Why it did not fit: limit, allocator_anomaly, flush_skipped, driver_refusal, fragmentation, private_pools,
    other_streams, non_torch, other_process or exhaustion; None where that is not decided."""
    also: tuple[str, ...] = ()
    """Other causes whose undoing would have been enough too."""
    margins: tuple[FitMargin, ...] = ()
    helps: tuple[str, ...] = ()
    pools: tuple[AllocatorPool, ...] = ()
    components: dict[str, int] = {}
    """Active bytes by engine component, as the stacks tell."""
    cites: tuple[Citation, ...] = ()


class Cascade(msgspec.Struct, frozen=True, kw_only=True):
    """What followed from the root failure: copies of the message, other ranks, later exceptions."""

    failures: int
    ranks: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    """In the root's source, of the first failures that joined, at most 20."""


class Incident(msgspec.Struct, kw_only=True, rename={"oom_class": "class"}):
    """One root failure and all that followed from it."""

    id: str
    verdict: Verdict | None
    oom_class: OomClass | None
    code: str | None
    resource: Resource | None
    confidence: float
    survived: bool | None
    summary: str
    """The verdict in one sentence."""
    phase: str | None = None
    """In which phase of the worker's life it happened, where known."""
    ts: str | None = None
    ts_quality: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    worker: str | None = None
    incarnation: str | None = None
    rank: int | None = None
    rank_name: str | None = None
    requested_bytes: int | None = None
    short_bytes: int | None = None
    """Requested less free on the device, below a limit; good to the print resolution; None where that was enough."""
    causes: list[Cause] = []
    evidence: list[Evidence] = []
    against: list[Evidence] = []
    alternatives: list[Alternative] = []
    missing: list[Missing] = []
    memory_at_oom: MemoryNode | None = None
    cohort_at_oom: Cohort | None = None
    allocator_at_oom: AllocatorState | None = None
    remedies: list[Remedy] = []
    cascade: Cascade | None = None
    repeats: int = 0
    """How many earlier starts failed the same way; of very many the oldest are told by their error alone."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One input as it was read."""

    path: str
    format: InputFormat
    bytes: int
    lines: int | None = None
    rows: int
    engines: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    """Files of a rotated log that were read as one, oldest first."""


class Triage(msgspec.Struct, kw_only=True):
    """What `oomctl triage --json` prints."""

    schema: str = SCHEMA
    inputs: list[Input]
    incidents: list[Incident]
    omitted: int = 0
    """Failures beside these that were counted and not looked into: of each worker the oldest of very many."""


def verdict_schema() -> dict[str, Any]:
    """JSON Schema of the output of `oomctl triage --json`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        **msgspec.json.schema(Triage),
    }
