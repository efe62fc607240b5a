"""The blocks of a paged KV cache: free, held, or cached and evictable, least recently used first."""

from collections import OrderedDict
from collections.abc import Sequence


class BlockPool:
    """Blocks, some of which hold a hashed extent of a prompt and can be shared.

    The model is that of vLLM V1: an extent that nobody holds stays cached until its blocks are wanted, the least recently
    used first, and of one request's the last first. So an extent never outlives those before it, and a cached prefix is
    found by bisection. One hash stands for `extent_blocks` blocks, since traces hash more tokens at once than an engine
    has in a block. Full blocks of what a request generated stay cached as well, though a trace has no hash to find them by:
    only a request that was preempted finds its own again.

    Attributes:
        total_blocks: Of the pool.
        free_blocks: Neither held nor cached.
        held_blocks: In use by requests, an extent once.
        cached_blocks: Held by nobody, still filled.
        evicted_blocks: So far.
    """

    def __init__(self, total_blocks: int, extent_blocks: int) -> None:
        self.total_blocks = total_blocks
        self.extent_blocks = extent_blocks
        self.free_blocks = total_blocks
        self.held_blocks = self.cached_blocks = self.evicted_blocks = 0
        self._holders: dict[int, int] = {}
        # Extent to its blocks, least recently used first; what has no name is there under a number below 0.
        self._cached: OrderedDict[int, int] = OrderedDict()
        self._nameless = 0

    @property
    def available_blocks(self) -> int:
        """Blocks that can be taken: free ones, and what can be evicted."""
        return self.free_blocks + self.cached_blocks

    def cached_extents(self, extents: Sequence[int], limit: int) -> int:
        """How many of the first extents of a prompt, at most `limit`, are in the pool."""
        low, high = 0, min(len(extents), limit)
        holders, cached = self._holders, self._cached
        while low < high:
            middle = (low + high + 1) // 2
            each = extents[middle - 1]
            if each in holders or each in cached:
                low = middle
            else:
                high = middle - 1
        return low

    def available_beside(self, extents: Sequence[int], count: int) -> int:
        """What could be taken once the first `count` extents are held: those only cached now can then not be evicted."""
        cached = self._cached
        revived = sum(1 for each in extents[:count] if each in cached)
        return self.available_blocks - revived * self.extent_blocks

    def leave(self, blocks: int, filled: int) -> list[int]:
        """As `give_back`, for one that comes back: names of its own for the filled blocks, in the order of its tokens."""
        names = [self._nameless - filled + place for place in range(filled)]
        self._nameless -= filled
        self.free_blocks += blocks - filled
        self.held_blocks -= blocks
        self.cached_blocks += filled
        self._cached.update((name, 1) for name in reversed(names))
        return names

    def left(self, names: Sequence[int], limit: int) -> int:
        """How many of the first blocks that were left, at most `limit`, are still there."""
        cached = self._cached
        return next((place for place, name in enumerate(names[:limit]) if name not in cached), min(len(names), limit))

    def retake(self, names: Sequence[int]) -> None:
        """Hold blocks that were left, and are still there."""
        for name in names:
            del self._cached[name]
        self.cached_blocks -= len(names)
        self.held_blocks += len(names)

    def hold(self, extents: Sequence[int]) -> None:
        """Take part in extents that are in the pool."""
        holders, cached = self._holders, self._cached
        for each in extents:
            if each in holders:
                holders[each] += 1
            else:
                del cached[each]
                holders[each] = 1
                self.cached_blocks -= self.extent_blocks
                self.held_blocks += self.extent_blocks

    def take(self, blocks: int) -> bool:
        """Take blocks, evicting what is cached if need be; False, and nothing changed, if there are not enough."""
        if blocks > self.free_blocks:
            if blocks > self.available_blocks:
                return False
            while blocks > self.free_blocks:
                _, evicted = self._cached.popitem(last=False)
                self.cached_blocks -= evicted
                self.evicted_blocks += evicted
                self.free_blocks += evicted
        self.free_blocks -= blocks
        self.held_blocks += blocks
        return True

    def name(self, extent: int) -> bool:
        """Blocks that were taken hold this extent now; False if another copy has the name already."""
        if extent in self._holders or extent in self._cached:
            return False
        self._holders[extent] = 1
        return True

    def give_back(self, blocks: int, filled: int = 0) -> None:
        """Return blocks without a name. Those that are filled stay cached, to be evicted in their turn."""
        self.free_blocks += blocks - filled
        self.held_blocks -= blocks
        if filled:
            self._nameless -= 1
            self._cached[self._nameless] = filled
            self.cached_blocks += filled

    def give_back_copies(self, extents: Sequence[int]) -> None:
        """Return filled blocks that another copy had the name of: it is theirs, if that has been evicted since."""
        for each in reversed(extents):
            if each in self._holders:
                self.give_back(self.extent_blocks, self.extent_blocks)
            elif each in self._cached:
                self.give_back(self.extent_blocks, self.extent_blocks)
                self._cached.move_to_end(each)  # either of them will be found
            else:
                self._holders[each] = 1
                self.let_go([each])

    def let_go(self, extents: Sequence[int]) -> None:
        """End the part in extents, given in the order of the prompt: what nobody holds stays cached, its end the oldest."""
        holders, cached = self._holders, self._cached
        for each in reversed(extents):
            if holders[each] == 1:
                del holders[each]
                cached[each] = self.extent_blocks
                self.cached_blocks += self.extent_blocks
                self.held_blocks -= self.extent_blocks
            else:
                holders[each] -= 1

    def check(self) -> None:
        """Every block is in exactly one place; for tests.

        Raises:
            AssertionError: If not.
        """
        assert self.free_blocks >= 0 and self.held_blocks >= len(self._holders) * self.extent_blocks
        assert sum(self._cached.values()) == self.cached_blocks
        assert self.free_blocks + self.held_blocks + self.cached_blocks == self.total_blocks
        assert self._holders.keys().isdisjoint(self._cached) and all(count > 0 for count in self._holders.values())
