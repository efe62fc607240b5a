"""The scheduler of the replayed engine: who computes in a step, who gets blocks, and who has to give them back.

That of vLLM V1 (v1/core/sched/scheduler.py): running requests first, each decoding one token per step; what is left of the
step's token budget goes to prompts in chunks, those begun first, then the waiting in order. Where no block is left, the
request that was scheduled last gives its blocks back and is computed again later, before all that wait.
"""

import heapq
from collections import deque

from oomctl.analyzers.capacity.replay.blocks import BlockPool
from oomctl.analyzers.capacity.replay.contexts import Contexts
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.machine import Live, Machine
from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.watch import Watch
from oomctl.analyzers.capacity.replay.workload import Workload

END, GROWTH, TELL = 0, 1, 2
TELL_TOKENS = 32
"""A policy hears of progress at least this often, where blocks are larger."""


class Scheduler:
    """Requests in the engine and the blocks that they hold; `Engine` moves the clock.

    Args:
        workload: What comes.
        machine: What it comes to.
        gate: What stands before it.
        watch: Is told what happens.

    Attributes:
        pool, contexts: The blocks, and who keeps some while a tool runs.
        run: What became of each.
        now_s, step: The clock, and decode steps so far.
        waiting, running: Admitted ones, by the order in which they were scheduled.
    """

    def __init__(self, workload: Workload, machine: Machine, gate: Gate, watch: Watch) -> None:
        hash_tokens = workload.hash_tokens or machine.block_tokens
        self._extent_blocks = hash_tokens // machine.block_tokens
        self._extent_tokens = hash_tokens
        self._machine, self._gate, self._watch = machine, gate, watch
        self.pool = BlockPool(machine.total_blocks, self._extent_blocks)
        self.contexts = Contexts(self.pool, machine)
        name = gate.state.policy.name if gate.state is not None else "engine"
        self.run = Run.of(workload, name, machine.total_blocks, machine.block_tokens)
        self.run.reasons = gate.reasons
        self.now_s = 0.0
        self.step = 0
        self.waiting: deque[Live] = deque()
        self.running: dict[int, Live] = {}
        self._prefilling: dict[int, Live] = {}
        self._decoding = 0
        self._orders = 0
        self._preempted = False
        self._due: list[tuple[int, int, int, int, Live]] = []

    # Prompts

    def _schedule(self) -> list[tuple[Live, int]]:
        """Chunks of prompts for this step, their blocks taken."""
        if not self._prefilling and not self.waiting:
            return []
        machine = self._machine
        budget = machine.max_num_batched_tokens - self._decoding
        scheduled: list[tuple[Live, int]] = []
        for live in list(self._prefilling.values()):
            if live.order not in self.running or budget <= 0:
                continue  # preempted by one before it, or left for a later step
            chunk = min(budget, live.goal_tokens - live.computed_tokens)
            if self._grow_prompt(live, chunk):
                scheduled.append((live, chunk))
                budget -= chunk
        preempted = {id(live) for live, _ in scheduled if live.order not in self.running}
        scheduled = [entry for entry in scheduled if id(entry[0]) not in preempted]
        # As vLLM: a step that had to take blocks away lets nobody in.
        while not self._preempted and self.waiting and budget > 0 and len(self.running) < machine.max_num_seqs:
            entry = self._admit(self.waiting[0], budget)
            if entry is None:
                break
            self.waiting.popleft()
            scheduled.append(entry)
            budget -= entry[1]
        return scheduled

    def _admit(self, live: Live, budget: int) -> tuple[Live, int] | None:
        job = live.job
        prefix = job.request.prefix if self._machine.prefix_caching else ()
        kept = self.contexts.of(job)
        left: list[int] = []
        if kept is not None and kept.in_pool:
            hit, found_tokens, own = len(kept.extents), kept.tokens, kept.blocks
        else:
            # The last token is always computed, for what follows it.
            hit = self.pool.cached_extents(prefix, (live.goal_tokens - 1) // self._extent_tokens) if prefix else 0
            left = self._left(live, hit)
            own = len(left)
            found_tokens = hit * self._extent_tokens + own * self._machine.block_tokens
            found_tokens = max(found_tokens, kept.tokens if kept is not None else 0)
        chunk = min(budget, live.goal_tokens - found_tokens)
        # As vLLM: a prompt is begun only if the whole of it has room, however small its first chunk.
        wanted = live.blocks_for(live.goal_tokens, self._machine.block_tokens) - hit * self._extent_blocks - own
        revived = 0 if kept is not None and kept.in_pool else hit
        while wanted > self.pool.available_beside(prefix, revived) - len(left):
            if not self.contexts.give_up_oldest(kept):
                return None
        self.contexts.claim(job)
        self.pool.hold(prefix[:revived])
        self.pool.retake(left)
        live.extents, live.blocks, live.computed_tokens = hit, own, found_tokens
        live.left = []
        self._orders += 1
        live.order = self._orders
        self.running[live.order] = self._prefilling[live.order] = live
        outcome = self.run.outcomes[job.index]
        again = outcome.preemptions > 0
        if again:
            outcome.recomputed_tokens += max(0, live.lost_tokens - found_tokens)
        else:
            outcome.hit_tokens = found_tokens
        outcome.computed_tokens += live.goal_tokens - found_tokens
        self._watch.saw("resumed" if again else "scheduled", self.now_s, job, cached_tokens=found_tokens)
        taken = self._grow_prompt(live, chunk)
        assert taken, "available_beside counted what could not be taken"
        return live, chunk

    def _left(self, live: Live, hit: int) -> list[int]:
        """Of the blocks that a preempted request left, those behind its first extents that are still there."""
        if not live.left or hit < live.left_extents:
            return []
        names = live.left[(hit - live.left_extents) * self._extent_blocks :]
        job = live.job
        # What several branches generated does not follow the prompt in one line.
        tokens = live.goal_tokens if job.request.branches == 1 else job.prompt_tokens
        limit = (tokens - 1) // self._machine.block_tokens - hit * self._extent_blocks
        return names[: self.pool.left(names, limit)]

    def _grow_prompt(self, live: Live, chunk: int) -> bool:
        """Take blocks for the next chunk, and name the extents that it completes."""
        after = live.computed_tokens + chunk
        wanted = live.blocks_for(after, self._machine.block_tokens) - live.blocks - live.extents * self._extent_blocks
        if not self._take(wanted, live):
            return False
        live.blocks += wanted
        if self._machine.prefix_caching and live.job.ids is not None:
            prefix = live.job.request.prefix
            whole = min(after, live.job.prompt_tokens) // self._extent_tokens
            # Once another copy has a name, what follows in this one stays without.
            while live.extents < min(whole, len(prefix)) and self.pool.name(prefix[live.extents]):
                live.extents += 1
                live.blocks -= self._extent_blocks
        return True

    def _first_token(self, live: Live) -> None:
        """Its prompt is computed, and with it the next token."""
        del self._prefilling[live.order]
        job = live.job
        outcome = self.run.outcomes[job.index]
        self._decoding += 1
        live.generated += 1
        live.begun_step = self.step
        if live.generated == 1:
            outcome.first_token_s = self.now_s
            self._watch.saw("first_token", self.now_s, job)
            self._gate.produced(job, 1, self.now_s)
        branches, block_tokens = job.request.branches, self._machine.block_tokens
        end = self.step + job.output_tokens - live.generated
        heapq.heappush(self._due, (end, END, live.order, live.life, live))
        room = -live.goal_tokens % block_tokens
        if branches > 1 and job.prompt_tokens % block_tokens and live.goal_tokens == job.prompt_tokens:
            self._copy_on_write(live, branches - 1)
        heapq.heappush(self._due, (self.step + room, GROWTH, live.order, live.life, live))
        if self._gate.state is not None and block_tokens > TELL_TOKENS:
            heapq.heappush(self._due, (self.step + TELL_TOKENS, TELL, live.order, live.life, live))

    def _copy_on_write(self, live: Live, copies: int) -> None:
        """Each branch but one writes into a copy of the prompt's last, partly filled block."""
        if self._take(copies, live):
            live.blocks += copies
            self.run.copied_blocks += copies

    # Ends

    def _take(self, blocks: int, live: Live) -> bool:
        """Take blocks from whoever has to give way; False if that was the request itself."""
        while not self.pool.take(blocks):
            if not self.contexts.give_up_oldest() and self._preempt_last() is live:
                return False
        return True

    def _preempt_last(self) -> Live:
        order = next(reversed(self.running))
        live = self.running[order]
        generated = live.generated_by(self.step)
        outcome = self.run.outcomes[live.job.index]
        outcome.preemptions += 1
        self._preempted = True
        live.lost_tokens = live.cached_by(self.step)
        self._stop(live, comes_back=True)
        live.generated, live.goal_tokens = generated, live.job.prompt_tokens + generated
        self.waiting.appendleft(live)
        self._gate.retracted(live.job, self.now_s)
        self._watch.saw("preempted", self.now_s, live.job, output_tokens=live.generated)
        return live

    def _stop(self, live: Live, *, kept: bool = False, comes_back: bool = False) -> None:
        """It holds nothing from now on; what is full stays cached. Or another has taken over what it held (kept)."""
        if not kept:
            prefix = live.job.request.prefix
            filled = live.filled(self.step, self._machine, self._extent_blocks)
            if comes_back:
                live.left, live.left_extents = self.pool.leave(live.blocks, filled), live.extents
            else:
                whole = min(live.cached_by(self.step), live.job.prompt_tokens) // self._extent_tokens
                copies = prefix[live.extents : whole] if filled else ()
                copied = len(copies) * self._extent_blocks
                self.pool.give_back(live.blocks - copied, max(0, filled - copied))
                self.pool.give_back_copies(copies)
            self.pool.let_go(prefix[: live.extents])
        del self.running[live.order]
        self._prefilling.pop(live.order, None)
        if live.begun_step >= 0:
            self._decoding -= 1
        live.life += 1
        live.begun_step = -1
        live.blocks = live.extents = live.computed_tokens = 0
