"""What goes out of a KV block pool and comes back, counted where it happens."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent.guard import Patches

TAKES = ("get_new_blocks", "touch")
GIVES = ("free_blocks", "unpin_blocks")


class PoolTotals:
    """Counts one block pool. From `attach` on, `allocated - freed` is what the pool itself calls used.

    Args:
        pool: The engine's block pool; its null block counts as neither total nor used.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.total = len(pool.blocks) - 1
        self.allocated = 0
        self.freed = 0

    @property
    def free(self) -> int:
        """Free blocks by the pool's own count, cached ones that can be evicted among them."""
        return int(self._pool.free_block_queue.num_free_blocks)

    def attach(self, patches: Patches) -> None:
        """Count from now on."""
        self.rebase()
        for name in TAKES + GIVES:
            if name != "unpin_blocks" or hasattr(self._pool, name):
                patches.wrap(self._pool, name, self._counting(name))

    def rebase(self) -> None:
        """Begin anew from what the pool says."""
        self.allocated = self.freed + self.total - self.free

    def _counting(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        pool = self._pool

        def make_take(original: Callable[..., Any]) -> Callable[..., Any]:
            def take(*args: Any, **kwargs: Any) -> Any:
                before = pool.free_block_queue.num_free_blocks
                result = original(*args, **kwargs)
                self.allocated += before - pool.free_block_queue.num_free_blocks
                return result

            return take

        def make_give(original: Callable[..., Any]) -> Callable[..., Any]:
            def give(*args: Any, **kwargs: Any) -> Any:
                before = pool.free_block_queue.num_free_blocks
                result = original(*args, **kwargs)
                self.freed += pool.free_block_queue.num_free_blocks - before
                return result

            return give

        return make_take if name in TAKES else make_give


def find_pools(manager: Any) -> list[Any]:
    """Each block pool of a KV cache manager once, the main one first."""
    coordinator = getattr(manager, "coordinator", None)
    managers = getattr(coordinator, "single_type_managers", ())
    found = [manager.block_pool, *(getattr(one, "block_pool", None) for one in managers)]
    unique: list[Any] = []
    for pool in found:
        if pool is not None and not any(pool is other for other in unique):
            unique.append(pool)
    return unique
