"""What becomes of a context while its session waits for a tool: it stays, goes to the host, or is left to the cache."""

from dataclasses import dataclass
from math import inf

from oomctl.analyzers.capacity.replay.blocks import BlockPool
from oomctl.analyzers.capacity.replay.machine import Live, Machine
from oomctl.analyzers.capacity.replay.workload import Job


@dataclass(slots=True)
class Kept:
    """A context that waits for its session's next turn.

    Attributes:
        tokens: Computed: prompt and output but for the last token.
        extents: Named ones that it holds in the pool.
        blocks: Held without a name.
        out_s: When it has reached the host; inf where it stays.
        in_pool: Whether its blocks are still held.
    """

    tokens: int
    extents: list[int]
    blocks: int
    out_s: float
    in_pool: bool = True


class Contexts:
    """Contexts that are kept, by the turn that they wait for.

    What stays is given up for others when the pool runs out, the oldest first; what is on the host is not.

    Attributes:
        given_up: Contexts that had to go before their turn came.
    """

    def __init__(self, pool: BlockPool, machine: Machine) -> None:
        self._pool, self._machine = pool, machine
        self._kept: dict[int, Kept] = {}
        self._moving: list[int] = []
        self._link_s = 0.0
        self.given_up = 0

    def keep(self, live: Live, following: Job | None, now_s: float) -> bool:
        """Take over what a request that ends holds, if a tool is waited for; False if not."""
        machine = self._machine
        if machine.tool_waits == "recompute" or following is None or not following.waits_for_tool:
            return False
        tokens = live.job.prompt_tokens + live.job.output_tokens - 1
        kept = Kept(tokens, list(live.job.request.prefix[: live.extents]), live.blocks, inf)
        self._kept[following.index] = kept
        if machine.tool_waits == "offload":
            self._link_s = max(self._link_s, now_s) + self.transfer_s(tokens)
            kept.out_s = self._link_s
            self._moving.append(following.index)
        return True

    def transfer_s(self, tokens: int) -> float:
        """One way over the link."""
        return tokens * self._machine.bytes_per_token / self._machine.link_bytes_per_s

    @property
    def next_s(self) -> float:
        """When the next one has reached the host."""
        while self._moving and (self._moving[0] not in self._kept or not self._kept[self._moving[0]].in_pool):
            self._moving.pop(0)
        return self._kept[self._moving[0]].out_s if self._moving else inf

    def advance(self, now_s: float) -> None:
        """Blocks of those that have reached the host are free."""
        while self.next_s <= now_s:
            self._leave_pool(self._kept[self._moving.pop(0)])

    def back_s(self, job: Job) -> float:
        """How long a turn waits for its context to come back from the host."""
        kept = self._kept.get(job.index)
        return 0.0 if kept is None or kept.in_pool else self.transfer_s(kept.tokens)

    def of(self, job: Job) -> Kept | None:
        """The context that a turn goes on from; None if there is none, or if its prompt is another."""
        kept = self._kept.get(job.index)
        if kept is None:
            return None
        if job.prompt_tokens > kept.tokens and list(job.request.prefix[: len(kept.extents)]) == kept.extents:
            return kept
        self.drop(job)
        return None

    def claim(self, job: Job) -> None:
        """A turn has taken its context over."""
        self._kept.pop(job.index, None)

    def drop(self, job: Job) -> None:
        """The turn will not come."""
        kept = self._kept.pop(job.index, None)
        if kept is not None and kept.in_pool:
            self._leave_pool(kept)

    def give_up_oldest(self, but: Kept | None = None) -> bool:
        """Make room for others; False if there is nothing to give up but one context."""
        for index, kept in self._kept.items():
            if kept.in_pool and kept is not but:
                del self._kept[index]
                self._leave_pool(kept)
                self.given_up += 1
                return True
        return False

    def _leave_pool(self, kept: Kept) -> None:
        kept.in_pool = False
        self._pool.give_back(kept.blocks)
        self._pool.let_go(kept.extents)
