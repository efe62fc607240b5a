"""The caching allocator's own rules: where a request is put, when the driver is asked, and what is given back first.

Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.x: malloc, get_free_block, alloc_block, should_split, free_block,
release_available_cached_blocks, release_cached_blocks, garbage_collect_cached_blocks, and the expandable segments'
find_expandable_block, map_block and unmap_block. Rewritten here, in its words where they name things.
"""

from collections.abc import Callable

from oomctl.analyzers.allocator.model.blocks import Block, FreeBlocks, PoolKey
from oomctl.analyzers.allocator.model.device import Driver
from oomctl.analyzers.allocator.model.expandable import Expandable
from oomctl.analyzers.allocator.model.settings import UNLIMITED, Settings
from oomctl.analyzers.allocator.rules import ROUND_BYTES, SMALL_BYTES, segment_bytes
from oomctl.schemas.heap import DEFAULT_POOL, NO_STACK, PoolId

Observer = Callable[[str, int, int, int, PoolId], None]
"""Called with (action, address, bytes, stream, pool) of what happens to segments."""


class OutOfMemory(Exception):
    """A request that was refused after everything was tried.

    Attributes:
        block_bytes: The request, rounded.
        segment_bytes: What the driver was asked for: "Tried to allocate".
    """

    def __init__(self, block_bytes: int) -> None:
        super().__init__(f"{block_bytes} bytes")
        self.block_bytes = block_bytes
        self.segment_bytes = segment_bytes(block_bytes)


class Allocator:
    """One device's allocator.

    Args:
        driver: Where segments come from.
        settings: As PYTORCH_CUDA_ALLOC_CONF has them.
        observe: Told of every segment that comes and goes.
    """

    def __init__(self, driver: Driver, settings: Settings, observe: Observer | None = None) -> None:
        self.settings = settings
        self.driver = driver
        self.reserved_bytes = 0
        self.active_bytes = 0
        self.retries = 0
        self.capturing = False
        self.live: dict[int, Block] = {}
        self.pools: dict[PoolKey, FreeBlocks] = {}
        self.released: set[PoolId] = set()
        """Private pools that nobody uses any more: a flush empties them too."""
        self._observe = observe
        self._expandable = Expandable(self)

    def pool(self, pool: PoolId, small: bool) -> FreeBlocks:
        """The free blocks of a pool and size class."""
        key = (pool, small)
        found = self.pools.get(key)
        if found is None:
            found = self.pools[key] = FreeBlocks(key)
        return found

    def malloc(self, request_bytes: int, stream: int = 0, pool: PoolId = DEFAULT_POOL, stack: int = NO_STACK) -> Block:
        """Serve a request.

        Raises:
            OutOfMemory: If it does not fit.
        """
        size = self.settings.block_bytes(request_bytes)
        blocks = self.pool(pool, size <= SMALL_BYTES)
        block = self._from_cache(blocks, stream, size)
        if block is None:
            if self.settings.collects:
                self._collect()
            block = self._from_driver(blocks, stream, size)
        if block is None and self._release_oversize(blocks, stream, size):
            block = self._from_driver(blocks, stream, size)
        if block is None and self.flush():
            self.retries += 1
            block = self._from_driver(blocks, stream, size)
        if block is None:
            raise OutOfMemory(size)
        return self._hand_out(block, size, request_bytes, stack)

    def cached(self, request_bytes: int, stream: int = 0, pool: PoolId = DEFAULT_POOL) -> bool:
        """Whether a free block would serve a request as it is."""
        size = self.settings.block_bytes(request_bytes)
        return self._fitting(self.pool(pool, size <= SMALL_BYTES), stream, size) is not None

    def free(self, address: int) -> Block:
        """Take a block back into the cache, merged with its free neighbours."""
        block = self.live.pop(address)
        self.active_bytes -= block.size
        block.allocated = block.pending = False
        block.requested, block.stack = 0, NO_STACK
        for other in (block.prev, block.next):
            self.merge(block, other)
        block.pool.add(block)
        return block

    def flush(self) -> bool:
        """torch.cuda.empty_cache, and what a failing request tries last: nothing while a graph is captured."""
        if self.capturing:
            return False
        for pool, small in list(self.pools):
            if pool == DEFAULT_POOL or pool in self.released:
                self._release_all(self.pools[pool, small])
        return True

    def merge(self, block: Block, other: Block | None) -> None:
        """Join a free neighbour, taken out of its list, to a block that is in none."""
        if other is None or not other.idle or other.mapped != block.mapped:
            return
        other.pool.remove(other)
        block.size += other.size
        if other is block.prev:
            block.address = other.address
            block.prev = other.prev
            if block.prev is not None:
                block.prev.next = block
        else:
            block.next = other.next
            if block.next is not None:
                block.next.prev = block

    def reserved(self, action: str, address: int, size: int, block: Block) -> None:
        """Count what came from the driver, or, by its action, went back."""
        self.reserved_bytes += size if action in ("segment_alloc", "segment_map") else -size
        if self._observe is not None:
            self._observe(action, address, size, block.stream, block.pool.key[0])

    def _from_cache(self, blocks: FreeBlocks, stream: int, size: int) -> Block | None:
        blocks.searches += self.settings.collects
        block = self._fitting(blocks, stream, size)
        if block is not None:
            blocks.remove(block)
        return block

    def _fitting(self, blocks: FreeBlocks, stream: int, size: int) -> Block | None:
        settings = self.settings
        place = blocks.from_size(stream, size)
        block = self._at(blocks, place, stream)
        if block is None:
            return None
        if block.expandable:
            block = self._expandable.best(blocks, place, stream)
            if block is None:
                return None
        if size < settings.max_split_bytes <= block.size:
            return None
        if size >= settings.max_split_bytes and block.size >= size + settings.slack_bytes:
            return None
        return block

    def _from_driver(self, blocks: FreeBlocks, stream: int, size: int) -> Block | None:
        wanted = segment_bytes(size)
        limit = self.settings.limit_bytes
        if limit is not None and self.reserved_bytes + wanted > limit:
            return None
        if self.settings.expandable:
            return self._expandable.grow(blocks, stream, size)
        address = self.driver.allocate(wanted)
        if address is None:
            return None
        block = Block(address, wanted, stream, blocks)
        self.reserved("segment_alloc", address, wanted, block)
        return block

    def _hand_out(self, block: Block, size: int, request_bytes: int, stack: int) -> Block:
        rest = block.size - size
        split = (
            rest >= ROUND_BYTES
            if block.pool.small or self.settings.expandable
            else size < self.settings.max_split_bytes and rest > SMALL_BYTES
        )
        if split:
            tail = Block(block.address + size, rest, block.stream, block.pool, block.expandable, block.origin)
            tail.prev, tail.next = block, block.next
            if tail.next is not None:
                tail.next.prev = tail
            block.next, block.size = tail, size
            block.pool.add(tail)
        block.allocated, block.requested, block.stack = True, request_bytes, stack
        self.live[block.address] = block
        self.active_bytes += block.size
        return block

    def _release(self, block: Block) -> None:
        block.pool.remove(block)
        self.driver.give_back(block.address, block.size)
        self.reserved("segment_free", block.address, block.size, block)

    def _release_all(self, blocks: FreeBlocks) -> None:
        free = [blocks.at[address] for _, _, address in blocks.order]
        for block in free:
            if not block.expandable and block.whole:
                self._release(block)
        for block in free:
            if block.expandable:
                self._expandable.unmap(block)

    def _release_oversize(self, blocks: FreeBlocks, stream: int, size: int) -> bool:
        """With max_split_size: the smallest oversize block that is large enough, or several, the largest first."""
        largest = self.settings.max_split_bytes
        if largest >= UNLIMITED:
            return False
        wanted = max(size, largest)
        place = blocks.from_size(stream, wanted)
        block = self._at(blocks, place, stream)
        if block is not None and not block.expandable and block.whole:
            self._release(block)
            return True
        given = 0
        for _, _, address in reversed(blocks.order[:place]):
            block = blocks.at[address]
            if given >= wanted or block.size < largest or block.stream != stream:
                break
            if not block.expandable and block.whole:
                self._release(block)
                given += block.size
        return given >= wanted

    def _collect(self) -> None:
        """Give back whole large segments that were not used for longer than the average, until below the threshold."""
        target = self.reserved_bytes - int(self.settings.gc_threshold * (self.settings.limit_bytes or 0))
        if target <= 0:
            return
        blocks = self.pool(DEFAULT_POOL, small=False)
        old = [block for _, _, address in blocks.order if (block := blocks.at[address]).whole and not block.expandable]
        given, freed = 0, True
        while given < target and freed and old:
            average = sum(blocks.searches - block.born for block in old) / len(old)
            freed = False
            for block in list(old):
                if blocks.searches - block.born >= average:
                    freed = True
                    given += block.size
                    old.remove(block)
                    self._release(block)

    @staticmethod
    def _at(blocks: FreeBlocks, place: int, stream: int) -> Block | None:
        if place >= len(blocks.order) or blocks.order[place][0] != stream:
            return None
        return blocks.at[blocks.order[place][2]]
