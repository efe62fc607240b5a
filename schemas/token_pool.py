"""What `oomctl capacity pool` says of a pool of KV blocks and the requests that it serves. None is "not told", never 0."""

from typing import Literal

import msgspec

from oomctl.schemas.cohorts import Spread, Trap

SCHEMA = "oomctl.token_pool/0"
Model = Literal["paged blocks", "virtual contiguity"]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that share a block table: a sequence takes blocks in each group."""

    block_tokens: int
    most_blocks: int | None = None
    """Of one sequence, where a window or a fixed state bounds them."""


class TokenPool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of KV blocks."""

    source: str
    quality: Literal["predicted", "measured", "given"]
    blocks: int
    groups: tuple[Group, ...]
    tokens: int
    """Of the longest sequence that takes all of it; with one group of layers, blocks times tokens of a block."""
    bytes_per_block: int | None = None
    bytes_per_token: int | None = None
    layer_bytes_per_token: int | None = None
    """Keys, or values, of one layer: what one virtual tensor holds of a token."""
    max_model_tokens: int | None = None


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How many sequences of a cohort the pool holds."""

    name: str
    sequence_tokens: Spread
    """Prompt and output of a request together."""
    blocks_p50: int | None = None
    blocks_p95: int | None = None
    blocks_p99: int | None = None
    sequences_p50: int | None = None
    """Where each were as long as this quantile."""
    sequences_p95: int | None = None
    sequences_p99: int | None = None
    sequences_mean: float | None = None
    """Of the cohort's own mix: the pool over the mean of blocks."""
    rounding_ratio: float | None = None
    """Of the tokens that blocks of all requests have room for: empty, in last blocks."""
    too_long: int = 0
    """Requests that the pool cannot hold alone, or that are longer than the model takes."""


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks to be kept for something that may come."""

    name: str
    blocks: int | None
    formula: str = ""
    reason: str = ""
    """Why the blocks are not told."""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The trace's requests under one way to allocate KV."""

    model: Model
    granule_tokens: int
    """What one allocation holds: a block, or a page of a layer's tensor."""
    waste_ratio: float
    """Of the tokens that there is room for: empty."""
    sequences_mean: float
    """How many of the trace's mix the pool's tokens hold."""
    allocations: Spread
    """Of a request while it lives: blocks, or pages of each tensor."""
    alive_tokens: Spread | None = None
    """That there is room for, by share of time."""
    shared_ratio: float | None = None
    """Of prompt tokens: in whole granules that a request before has too, as far as blocks of the trace tell."""


class PoolReport(msgspec.Struct, kw_only=True):
    """A pool, and what a trace asks of it."""

    schema: str = SCHEMA
    pool: TokenPool
    trace: str | None = None
    replicas: int = 1
    findings: list[Trap] = []
    fits: list[Fit] = []
    """By cohort, the first of all requests."""
    alive_blocks: Spread | None = None
    """Of one replica, by share of time: prompt and whole output, from arrival to end."""
    alive_quality: str | None = None
    headroom: list[Headroom] = []
    left_blocks: int | None = None
    """Of the pool, beyond all headroom that is told; negative: short of it."""
    allocations: list[Allocation] = []
    reasons: list[str] = []
    """What is not told, and why."""
