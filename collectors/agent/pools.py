"""What goes out of a KV block pool and comes back, counted where it happens."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent.guard import Patches
from oomctl.collectors.agent.layout import pack_texts

GIVES = ("free_blocks",)
"""The pool's methods that give blocks back."""
NEWER_GIVES = ("unpin_blocks",)
"""Likewise, in some versions only."""
TAKE = "touch"
"""The method that takes blocks out of the prefix cache, in scheduling or (for a transfer) at any time."""


class PoolTotals:
    """Counts one block pool. From `attach` on, `allocated - freed` is what the pool itself calls used.

    A scheduling takes blocks for one request after the other. So what goes out in it is not counted one by one, but after
    it, by how many more are used than before, and how many came back meanwhile.

    Args:
        pool: The engine's block pool; its null block counts as neither total nor used.
        group: Its number where there are several.

    Attributes:
        pool: As given.
        tail: Tier and group, packed once.
        total: Its blocks.
        allocated: Blocks that went out so far.
        freed: Blocks that came back so far.
    """

    __slots__ = ("allocated", "freed", "pool", "tail", "total")

    def __init__(self, pool: Any, group: str | None = None) -> None:
        self.pool = pool
        self.tail = pack_texts("device", group)
        self.total = len(pool.blocks) - 1
        self.allocated = 0
        self.freed = 0

    @property
    def free(self) -> int:
        """Free blocks by the pool's own count, cached ones that can be evicted among them."""
        return int(self.pool.free_block_queue.num_free_blocks)

    def attach(self, patches: Patches) -> None:
        """Count from now on."""
        self.rebase()
        for name in GIVES + tuple(name for name in NEWER_GIVES if hasattr(self.pool, name)):
            patches.wrap(self.pool, name, self._giving)
        patches.wrap(self.pool, TAKE, self._taking)

    def rebase(self) -> None:
        """Begin anew from what the pool says; likewise after a scheduling, if it was right before."""
        self.allocated = self.freed + self.total - self.free

    def _giving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def give(*args: Any, **kwargs: Any) -> Any:
            before = self.free
            result = original(*args, **kwargs)
            self.freed += self.free - before
            return result

        return give

    def _taking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def take(*args: Any, **kwargs: Any) -> Any:
            before = self.free
            result = original(*args, **kwargs)
            self.allocated += before - self.free
            return result

        return take


def find_pools(manager: Any) -> list[PoolTotals]:
    """Each block pool of a KV cache manager once, the main one first."""
    coordinator = getattr(manager, "coordinator", None)
    managers = getattr(coordinator, "single_type_managers", ())
    found = [manager.block_pool, *(getattr(one, "block_pool", None) for one in managers)]
    unique = list({id(pool): pool for pool in found if pool is not None}.values())
    return [PoolTotals(pool, str(number) if len(unique) > 1 else None) for number, pool in enumerate(unique)]
