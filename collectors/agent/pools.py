"""What goes out of a KV block pool and comes back, counted where it happens."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent.guard import Patches, pass_more, takes_only
from oomctl.collectors.agent.kinds import KV_POOL
from oomctl.collectors.agent.layout import NULL_I32, NULL_I64, pack_texts

GIVES = ("free_blocks",)
"""The pool's methods that give blocks back."""
NEWER_GIVES = ("unpin_blocks",)
"""Likewise, in some versions only."""
TAKE = "touch"
"""The method that takes blocks out of the prefix cache, in scheduling or (for a transfer) at any time."""


class PoolTotals:
    """Counts one block pool.

    What came back is counted as it comes. What went out follows from it, and from the pool's own count; how many blocks
    that should leave free is kept apart, so that a move on a way that is not known here shows. A scheduling takes blocks
    for one request after the other: it is believed as a whole.

    Args:
        pool: The engine's block pool; its null block counts as neither total nor used.
        block_size: Tokens of a block, or NULL.
        bytes_per_block: Over all layers of one rank, or NULL.
        group: Its number where there are several.

    Attributes:
        queue: Of its free blocks, with their number.
        total: Its blocks.
        freed: Blocks that came back so far.
        expected_free: Blocks that should be free.
    """

    __slots__ = ("_block_size", "_bytes_per_block", "_pool", "_tail", "expected_free", "freed", "queue", "total")

    def __init__(self, pool: Any, block_size: int, bytes_per_block: int, group: str | None = None) -> None:
        self._pool = pool
        self.queue = pool.free_block_queue
        self.total = len(pool.blocks) - 1
        self.freed = 0
        self._block_size = block_size
        self._bytes_per_block = bytes_per_block
        self._tail = pack_texts("device", group)
        self.rebase()

    @property
    def free(self) -> int:
        """Free blocks by the pool's own count, cached ones that can be evicted among them."""
        return int(self.queue.num_free_blocks)

    def attach(self, patches: Patches) -> None:
        """Count from now on."""
        self.rebase()
        for name in GIVES + tuple(name for name in NEWER_GIVES if hasattr(self._pool, name)):
            patches.wrap(self._pool, name, self._giving)
        patches.wrap(self._pool, TAKE, self._taking)

    def rebase(self) -> None:
        """Begin anew from what the pool says."""
        self.expected_free = self.free

    def slot(self) -> bytes:
        """Its KV_POOL record behind the checksum, with what never changes."""
        tokens = NULL_I64 if self._block_size == NULL_I32 else self.total * self._block_size
        nulls = KV_POOL.nulls[6:]
        values = self._block_size, self.total, 0, 0, self._bytes_per_block, tokens
        return KV_POOL.pack(KV_POOL.word, 0, 0, 0, *values, *nulls, self._tail)

    def _giving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        queue = self.queue

        def give(ordered_blocks: Any, call: Callable[..., Any] = original) -> Any:
            before = queue.num_free_blocks
            result = call(ordered_blocks)
            back = queue.num_free_blocks - before
            self.freed += back
            self.expected_free += back
            return result

        return give if takes_only(original, "ordered_blocks") else pass_more(give, original, 1)

    def _taking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        queue = self.queue

        def take(*args: Any, **kwargs: Any) -> Any:
            before = queue.num_free_blocks
            result = original(*args, **kwargs)
            self.expected_free += queue.num_free_blocks - before
            return result

        return take


def find_pools(scheduler: Any) -> list[PoolTotals]:
    """Each block pool of a scheduler's KV cache manager once, the main one first."""
    manager = scheduler.kv_cache_manager
    block_size = int(getattr(scheduler, "block_size", 0)) or NULL_I32
    bytes_per_block = _bytes_per_block(getattr(scheduler, "kv_cache_config", None))
    coordinator = getattr(manager, "coordinator", None)
    managers = getattr(coordinator, "single_type_managers", ())
    found = [manager.block_pool, *(getattr(one, "block_pool", None) for one in managers)]
    pools = list({id(pool): pool for pool in found if pool is not None}.values())
    return [
        PoolTotals(pool, block_size, bytes_per_block, str(number) if len(pools) > 1 else None)
        for number, pool in enumerate(pools)
    ]


def _bytes_per_block(config: Any) -> int:
    """Over all layers of one rank; NULL where the engine does not tell."""
    tensors, blocks = getattr(config, "kv_cache_tensors", None), getattr(config, "num_blocks", 0)
    if not tensors or not blocks:
        return NULL_I64
    return sum(int(tensor.size) for tensor in tensors) // int(blocks)
