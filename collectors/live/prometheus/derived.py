"""Arithmetic on an engine's own KV figures; each rule gives only what it can, and never a guess."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.live.prometheus.mapping import Rule

Fields = dict[str, Any]


def blocks_of_usage(pool: Fields) -> Fields:
    """vLLM: usage = 1 - free / (total - 1), for the null block is never given out (vllm/v1/core/block_pool.py, get_usage).

    Args:
        pool: Fields of a kv_pool row.
    """
    total, usage = pool.get("total_blocks"), pool.get("usage_ratio")
    if total is None or usage is None or total < 2:
        return {}
    used = round(usage * (total - 1))
    return {"used_blocks": used, "free_blocks": total - 1 - used}


def blocks_of_tokens(pool: Fields) -> Fields:
    """SGLang: a page is held whole, so tokens in use are a multiple of its size."""
    size = pool.get("block_size_tokens")
    if not size:
        return {}
    names = {"used_tokens": "used_blocks", "evictable_tokens": "evictable_blocks"}
    return {block: -(-pool[token] // size) for token, block in names.items() if token in pool}


def tokens_of_blocks(pool: Fields) -> Fields:
    """TensorRT-LLM: blocks times tokens per block; an upper bound of the tokens in them."""
    size = pool.get("block_size_tokens")
    if not size:
        return {}
    names = {"used_blocks": "used_tokens", "total_blocks": "total_tokens"}
    return {token: pool[block] * size for block, token in names.items() if block in pool}


RULES: dict[Rule, Callable[[Fields], Fields]] = {
    "blocks_of_usage": blocks_of_usage,
    "blocks_of_tokens": blocks_of_tokens,
    "tokens_of_blocks": tokens_of_blocks,
}
