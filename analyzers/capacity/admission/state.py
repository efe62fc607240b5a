"""What a pool holds and has promised, kept up to date in constant time per event."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from oomctl.analyzers.capacity.admission.request import Request, Scope, blocks_of


class Running:
    """A request that was admitted.

    Attributes:
        request: As it asked.
        output_tokens: Generated so far, per branch; while its prompt is computed minus the steps which that takes.
        blocks: What it holds in its own name: all but what it found held by others when it came.
        reserved_blocks: What the policy promised it beyond the present, in blocks.
        prefix: Hashes that it holds, its own and those found.
        kept: What the policy keeps about it.
    """

    __slots__ = ("blocks", "found_blocks", "kept", "output_tokens", "prefix", "request", "reserved_blocks")

    def __init__(self, request: Request, prefix: Sequence[int], blocks: int, found_blocks: int) -> None:
        self.request = request
        self.prefix = prefix
        self.blocks = blocks
        self.found_blocks = found_blocks
        self.output_tokens = 0
        self.reserved_blocks = 0
        self.kept: Any = None


Outlook: TypeAlias = tuple[float, int]
"""What a policy expects if a request enters: the most blocks that the pool will hold, and the output tokens reserved for
the request, per branch. A plain tuple, since making a named one would be a tenth of the decision's cost."""


class Policy:
    """How much a pool will hold if a request enters. It may keep sums, which the state tells it to update."""

    name = ""
    rejects = False
    """Whether a request that does not fit now is rejected rather than queued."""

    def outlook(self, state: "State", request: Request, found_blocks: int) -> Outlook:
        """The most that the pool will hold with this request.

        Args:
            state: The pool; not changed.
            request: Who asks.
            found_blocks: Of its blocks, those that running requests hold already.
        """
        raise NotImplementedError

    def entered(self, state: "State", running: Running) -> None:
        """A request was admitted; the state holds it."""

    def produced(self, state: "State", running: Running, before_blocks: int) -> None:
        """It generated tokens; `before_blocks` is what it held in its own name before."""

    def retracted(self, state: "State", running: Running) -> None:
        """The engine ran out of blocks and took this request's away, to compute it again later."""

    def left(self, state: "State", running: Running, finished: bool) -> None:
        """It ended, or was given up (not finished) and tells nothing of lengths; the state still counts its blocks."""


class State:
    """A pool of KV blocks, the requests in it, and a policy's view of them.

    Attributes:
        total_blocks: Of the pool.
        limit_blocks: What may be promised: all but the safety margin.
        block_tokens: Tokens per block.
        hash_blocks: Blocks that one hash of a prefix stands for.
        queue_limit: Requests that may wait.
        overtake_s: How long who waits may be overtaken by those that fit; 0: first come, first served.
        prefill_tokens_per_s: Speed of prompts.
        tpot_s: Time per output token.
        used_blocks: Held now, a shared block once.
        named_blocks: Of these, held in the name of one that runs: who brought a shared block may have gone.
        running: By name.
        now_s: The caller's clock; only policies that look at time need it.
    """

    def __init__(
        self,
        total_blocks: int,
        policy: Policy,
        *,
        block_tokens: int = 16,
        hash_blocks: int = 1,
        safety_blocks: int = 0,
        queue_limit: int = 100,
        overtake_s: float = 0.0,
        prefill_tokens_per_s: float = 8000.0,
        tpot_s: float = 0.03,
    ) -> None:
        if min(total_blocks, block_tokens, hash_blocks) < 1 or prefill_tokens_per_s <= 0 or tpot_s <= 0:
            raise ValueError("a pool has blocks, a block tokens, and both speeds are above 0")
        if not 0 <= safety_blocks < total_blocks:
            raise ValueError("the safety margin is a part of the pool")
        self.total_blocks = total_blocks
        self.limit_blocks = total_blocks - safety_blocks
        self.policy = policy
        self.block_tokens = block_tokens
        self.hash_blocks = hash_blocks
        self.queue_limit = queue_limit
        self.overtake_s = overtake_s
        self.prefill_tokens_per_s = prefill_tokens_per_s
        self.tpot_s = tpot_s
        self.used_blocks = 0
        self.named_blocks = 0
        self.running: dict[str, Running] = {}
        self.now_s = 0.0
        self._holders: dict[Scope, dict[int, int]] = {}

    @property
    def free_blocks(self) -> int:
        """Blocks that no running request holds; a cache may fill them, and gives them back at once."""
        return self.total_blocks - self.used_blocks

    def found_blocks(self, request: Request) -> int:
        """Of a request's blocks, those that running requests of its scope hold already.

        Hashes are chained, so who holds one holds all before it: the longest held prefix is found by bisection. The
        last token is always computed, so a whole prompt is never found.
        """
        prefix = request.prefix
        if not prefix:
            return 0
        holders = self._holders.get(request.scope)
        if not holders or prefix[0] not in holders:
            return 0
        low, high = 1, self._shareable(request)
        if high > len(prefix):
            high = len(prefix)
        if low > high:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            if prefix[middle - 1] in holders:
                low = middle
            else:
                high = middle - 1
        return low * self.hash_blocks

    def _shareable(self, request: Request) -> int:
        return (request.prompt_tokens - 1) // (self.block_tokens * self.hash_blocks)

    def enter(self, request: Request) -> Running:
        """Admit a request: its prompt's blocks are held from now on.

        Raises:
            ValueError: If a request of this name runs already.
        """
        if request.request in self.running:
            raise ValueError(f"{request.request} runs already")
        found = self.found_blocks(request)
        prefix = request.prefix[: self._shareable(request)] if request.prefix else ()
        holders = self._holders.setdefault(request.scope, {}) if prefix else {}
        for each in prefix:
            holders[each] = holders.get(each, 0) + 1
        own = blocks_of(request.prompt_tokens, 0, request.branches, self.block_tokens) - found
        running = Running(request, prefix, own, found)
        running.output_tokens = -int(self.prefill_s(request, found) / self.tpot_s)
        self.running[request.request] = running
        self.used_blocks += own
        self.named_blocks += own
        self.policy.entered(self, running)
        return running

    def produce(self, name: str, output_tokens: int) -> int:
        """A running request has generated so many tokens per branch by now.

        Tell it at least whenever a block is filled.

        Returns:
            Blocks that it took for them.
        """
        running = self.running[name]
        request = running.request
        running.output_tokens = output_tokens
        before = running.blocks
        running.blocks = (
            blocks_of(request.prompt_tokens, output_tokens, request.branches, self.block_tokens) - running.found_blocks
        )
        taken = running.blocks - before
        self.used_blocks += taken
        self.named_blocks += taken
        self.policy.produced(self, running, before)
        return taken

    def retract(self, name: str) -> None:
        """The engine preempted a running request. It comes back by itself, so it stays promised for."""
        self.policy.retracted(self, self.running[name])

    def leave(self, name: str, *, finished: bool = True) -> int:
        """A running request ended or was given up.

        A block that others hold too stays held.

        Args:
            name: Which.
            finished: Whether it generated all it wanted, so that its length tells about others.

        Returns:
            Blocks that became free.
        """
        running = self.running.pop(name)
        self.policy.left(self, running, finished)
        kept = 0
        if running.prefix:
            holders = self._holders[running.request.scope]
            for each in running.prefix:
                if holders[each] == 1:
                    del holders[each]
                else:
                    holders[each] -= 1
                    kept += self.hash_blocks
            if not holders:
                del self._holders[running.request.scope]
        freed = running.blocks + running.found_blocks - kept
        self.used_blocks -= freed
        self.named_blocks -= running.blocks
        return freed

    def prefill_s(self, request: Request, found_blocks: int) -> float:
        """How long its prompt takes, but for what was found."""
        return (request.prompt_tokens - found_blocks * self.block_tokens) / self.prefill_tokens_per_s

    def most_output_tokens(self, request: Request, found_blocks: int = 0) -> int:
        """The most that it can generate: what it may, and what its deadline leaves time for."""
        if request.deadline_s is None:
            return request.max_output_tokens
        left_s = request.deadline_s - self.prefill_s(request, found_blocks)
        return max(0, min(request.max_output_tokens, int(left_s / self.tpot_s)))
