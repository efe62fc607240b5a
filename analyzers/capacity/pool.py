"""A pool of KV blocks: from a ledger, from what was measured, or as given; and what a sequence takes of it."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oomctl import queries
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.ledger import Ledger
from oomctl.schemas.token_pool import Group, TokenPool

if TYPE_CHECKING:
    import duckdb

Index = npt.NDArray[np.int64]
USUAL_BLOCK_TOKENS = 16


def given_pool(blocks: int, block_tokens: int) -> TokenPool:
    """So many blocks of so many tokens.

    Args:
        blocks: At least 1.
        block_tokens: At least 1.
    """
    return TokenPool(
        source="as asked for",
        quality="given",
        blocks=blocks,
        groups=(Group(block_tokens=block_tokens),),
        tokens=blocks * block_tokens,
    )


def ledger_pool(ledger: Ledger) -> TokenPool:
    """The pool that a ledger predicts, of the stage of a pipeline whose layers decide it.

    Raises:
        OomctlError: If the ledger has none.
    """
    pool = ledger.pool
    if pool is None or pool.blocks <= 0 or not ledger.kv:
        raise OomctlError(
            f"the ledger of {ledger.model} has no KV pool",
            "predict it with --device, so that it has a size",
            ExitCode.USAGE,
        )
    layout = max(ledger.kv, key=lambda kv: kv.blocks_per_request)
    groups = tuple(
        Group(
            block_tokens=group.block_tokens,
            most_blocks=group.blocks_per_request
            if group.blocks_per_request < -(-ledger.max_model_len // group.block_tokens)
            else None,
        )
        for group in layout.groups
    )
    first = layout.groups[0]
    return TokenPool(
        source=f"{ledger.model}, {ledger.engine} {ledger.engine_version}",
        quality="predicted",
        blocks=pool.blocks,
        groups=groups,
        tokens=_longest(pool.blocks, groups),
        bytes_per_block=layout.bytes_per_block,
        bytes_per_token=layout.bytes_per_token,
        # A page of a layer holds keys and values of a block.
        layer_bytes_per_token=first.page_bytes // first.block_tokens // 2 or None if len(groups) == 1 else None,
        max_model_tokens=ledger.max_model_len,
    )


def measured_pool(
    connection: "duckdb.DuckDBPyConnection", name: str, block_tokens: int | None
) -> tuple[TokenPool, list[str]]:
    """The pool of the last start that a log or recording tells of.

    Args:
        connection: With the event table.
        name: Of the input.
        block_tokens: Where the input does not tell.

    Returns:
        The pool, and what had to be assumed.

    Raises:
        OomctlError: If no size of a pool was recorded.
    """
    cursor = connection.execute(queries.load("capacity", "pool").sql)
    names = [column[0] for column in cursor.description or ()]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if not rows:
        raise OomctlError(f"no size of a KV pool ({name})", "give the log of the engine's start, or --blocks")
    row, notes = rows[0], []
    if len(rows) > 1:
        notes.append(f"of {len(rows)} starts that tell a pool, the last of {row['stream']} is taken")
    size = row["block_tokens"]
    if size is None and row["total_blocks"] and row["total_tokens"]:
        size = max(row["total_tokens"] // row["total_blocks"], 1)
    size = size or block_tokens
    if size is None:
        size = USUAL_BLOCK_TOKENS
        notes.append(f"the tokens of a block are not told: {size} assumed; --block-size says otherwise")
    blocks = row["total_blocks"] or row["total_tokens"] // size
    per_block = row["bytes_per_block"]
    groups = (Group(block_tokens=size),)
    return TokenPool(
        source=name,
        quality="measured",
        blocks=blocks,
        groups=groups,
        tokens=row["total_tokens"] or blocks * size,
        bytes_per_block=per_block,
        bytes_per_token=None if per_block is None else per_block // size,
    ), notes


def blocks_of(tokens: Index, pool: TokenPool) -> Index:
    """Blocks that sequences take, in all groups of layers.

    Args:
        tokens: Of each sequence, int64, shape (n,).
        pool: Whose groups.
    """
    total = np.zeros(len(tokens), dtype=np.int64)
    for group in pool.groups:
        own = -(-tokens // group.block_tokens)
        total += own if group.most_blocks is None else np.minimum(own, group.most_blocks)
    return total


def _longest(blocks: int, groups: tuple[Group, ...]) -> int:
    """Tokens of the longest sequence that fits alone, in whole blocks of the groups that grow."""
    fixed = sum(group.most_blocks for group in groups if group.most_blocks is not None)
    growing = [group.block_tokens for group in groups if group.most_blocks is None]
    if not growing:
        return max(group.block_tokens * (group.most_blocks or 0) for group in groups)
    per_token = sum(1 / size for size in growing)
    step = min(growing)
    return int((blocks - fixed) / per_token) // step * step if blocks > fixed else 0
