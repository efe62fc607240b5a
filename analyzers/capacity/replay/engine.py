"""A paged engine as discrete events: chunked prefill, blocks taken at boundaries, preemption by recompute.

The scheduler is that of vLLM V1 (v1/core/sched/scheduler.py): running requests first, each decoding one token per step;
what is left of the step's token budget goes to prompts in chunks, those begun first, then the waiting in order. Where no
block is left, the request that was scheduled last gives its blocks back and is computed again later, before all that wait.

Nothing happens at most steps but one token more for each, so the clock jumps from event to event: an arrival, a block that
is full, an end. The cost is that of the events, whatever the number of steps between them.
"""

import heapq
from collections import deque
from math import ceil, inf

from oomctl.analyzers.capacity.admission.request import blocks_of
from oomctl.analyzers.capacity.replay.blocks import BlockPool
from oomctl.analyzers.capacity.replay.contexts import Contexts
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.machine import Live, Machine
from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.watch import SILENT, Watch
from oomctl.analyzers.capacity.replay.workload import Job, Workload

END, GROWTH, TELL = 0, 1, 2
TELL_TOKENS = 32
"""A policy hears of progress at least this often, where blocks are larger."""


class Engine:
    """One replay.

    Args:
        workload: What comes.
        machine: What it comes to.
        gate: What stands before it.
        watch: Is told what happens.
    """

    def __init__(self, workload: Workload, machine: Machine, gate: Gate, watch: Watch = SILENT) -> None:
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
        self._live: dict[int, Live] = {}
        self._decoding = 0
        self._orders = 0
        self._preempted = self._told = False
        self._due: list[tuple[int, int, int, int, Live]] = []
        self._coming = [(job.arrival_s, job.index) for job in workload.jobs if job.arrival_s < inf]
        heapq.heapify(self._coming)
        self._leaving: list[tuple[float, int]] = []

    def play(self) -> Run:
        """Play to the end."""
        while self._coming or self._leaving or self.waiting or self.running or self._gate.queue:
            self._take_in()
            self._finish_due()
            self._let_in()
            if not self._turn():
                break
        self.run.evicted_blocks = self.pool.evicted_blocks
        return self.run

    @property
    def queued(self) -> int:
        """Requests that wait for the policy."""
        return len(self._gate.queue)

    # What comes from outside

    def _take_in(self) -> None:
        self.contexts.advance(self.now_s)
        while self._leaving and self._leaving[0][0] <= self.now_s:
            self._give_up(heapq.heappop(self._leaving)[1])
        while self._coming and self._coming[0][0] <= self.now_s:
            at_s, index = heapq.heappop(self._coming)
            job, outcome = self.run.jobs[index], self.run.outcomes[index]
            if outcome.arrival_s != outcome.arrival_s:  # not yet set
                job.begin()
                outcome.arrival_s = at_s
                self._watch.saw("arrived", at_s, job)
                back_s = self.contexts.back_s(job)
                if back_s:
                    heapq.heappush(self._coming, (at_s + back_s, index))
                    continue
            limit = self._machine.waiting_limit
            if self._too_large(job):
                self._reject(job, "too_large")
                continue
            if limit is not None and len(self.waiting) >= limit:
                self._reject(job, "engine_queue_full")
                continue
            verdict = self._gate.arrive(job, self.now_s)
            if verdict == "admitted":
                self._enter(job)
            elif verdict == "queued":
                outcome.queued = True
                self._watch.saw("queued", at_s, job)
            else:
                self._reject(job, None)
            if outcome.fate != "rejected" and job.cancel_after_s < inf:
                heapq.heappush(self._leaving, (at_s + job.cancel_after_s, index))
        self.run.waiting_peak = max(self.run.waiting_peak, len(self._gate.queue) + len(self.waiting))

    def _too_large(self, job: Job) -> bool:
        """An engine refuses what could not run alone."""
        most = blocks_of(job.prompt_tokens, job.output_tokens - 1, job.request.branches, self._machine.block_tokens)
        return most > self._machine.total_blocks

    def _reject(self, job: Job, reason: str | None) -> None:
        if reason is not None:
            self.run.reasons[reason] = self.run.reasons.get(reason, 0) + 1
        self.run.outcomes[job.index].fate = "rejected"
        self.run.outcomes[job.index].end_s = self.now_s
        self._watch.saw("rejected", self.now_s, job)
        self._close(job)

    def _enter(self, job: Job) -> None:
        self.run.outcomes[job.index].admitted_s = self.now_s
        live = self._live[job.index] = Live(job)
        self.waiting.append(live)
        self._watch.saw("admitted", self.now_s, job)

    def _let_in(self) -> None:
        for job, verdict in self._gate.admit_waiting(self.now_s):
            if verdict == "admitted":
                self._enter(job)
            else:
                self._reject(job, None)

    def _give_up(self, index: int) -> None:
        job, outcome = self.run.jobs[index], self.run.outcomes[index]
        if outcome.fate:
            return
        live = self._live.get(index)
        if live is None:
            self._gate.queue.remove(job)
        else:
            if live.order in self.running:
                self._stop(live)
            else:
                self.waiting.remove(live)
            self._gate.left(job, self.now_s, finished=False)
        outcome.fate, outcome.end_s = "cancelled", self.now_s
        self._watch.saw("cancelled", self.now_s, job, output_tokens=live.generated_by(self.step) if live else 0)
        self._close(job)

    def _close(self, job: Job) -> None:
        self._live.pop(job.index, None)
        self.contexts.drop(job)
        job.end()
        following = self._following(job)
        if following is not None:
            heapq.heappush(self._coming, (self.now_s + following.pause_s, following.index))

    def _following(self, job: Job) -> Job | None:
        return None if job.next_turn is None else self.run.jobs[job.next_turn]

    # A step, or many alike

    def _turn(self) -> bool:
        """Go on by one step, or by all steps in which nothing happens; False if nothing will ever happen again."""
        self._preempted = self._told = False
        self._fill_blocks()
        scheduled = self._schedule()
        if scheduled:
            tokens = sum(chunk for _, chunk in scheduled)
            self._pass(tokens / self._machine.prefill_tokens_per_s + (self._machine.tpot_s if self._decoding else 0.0))
            self.step += 1
            for live, chunk in scheduled:
                live.computed_tokens += chunk
                if live.computed_tokens == live.goal_tokens:
                    self._first_token(live)
            return True
        next_s = min(
            self._coming[0][0] if self._coming else inf,
            self._leaving[0][0] if self._leaving else inf,
            self.contexts.next_s,
        )
        if not self._decoding:
            if next_s == inf:
                return False
            self._pass(max(0.0, next_s - self.now_s))
            self.now_s = max(self.now_s, next_s)
            return True
        steps = self._steps_until(next_s)
        self._pass(steps * self._machine.tpot_s)
        self.step += steps
        return True

    def _steps_until(self, next_s: float) -> int:
        """Steps in which all that happens is a token more for each: to the next event inside, or from outside."""
        if self._preempted or (self._told and self._gate.queue):
            return 1  # who waits may enter at the next one
        steps = max(1, self._due[0][0] - self.step)
        if next_s < inf:
            steps = min(steps, max(1, ceil((next_s - self.now_s) / self._machine.tpot_s - 1e-9)))
        return steps

    def _pass(self, seconds: float) -> None:
        self.run.usage.hold(self.pool.held_blocks, seconds)
        self._watch.passed(self.now_s, self.now_s + seconds, self)
        self.now_s += seconds

    def _finish_due(self) -> None:
        due = self._due
        while due and due[0][0] <= self.step and (due[0][1] == END or due[0][4].life != due[0][3]):
            _, _, _, life, live = heapq.heappop(due)
            if life == live.life:
                job = live.job
                self._gate.produced(job, job.output_tokens, self.now_s)
                self._stop(live, kept=self.contexts.keep(live, self._following(job), self.now_s))
                outcome = self.run.outcomes[job.index]
                outcome.fate, outcome.end_s = "finished", self.now_s
                self._gate.left(job, self.now_s, finished=True)
                self._watch.saw("finished", self.now_s, job, output_tokens=job.output_tokens)
                self._close(job)

    def _fill_blocks(self) -> None:
        """Blocks for the tokens of this step; what is due tells its policy how far it is."""
        due = self._due
        block_tokens = self._machine.block_tokens
        while due and due[0][0] <= self.step:
            _, kind, order, life, live = heapq.heappop(due)
            if life != live.life:
                continue
            generated = live.generated_by(self.step)
            if kind == GROWTH:
                branches = live.job.request.branches
                if not self._take(branches, live):
                    continue
                live.blocks += branches
                heapq.heappush(due, (self.step + block_tokens, GROWTH, order, life, live))
            else:
                heapq.heappush(due, (self.step + TELL_TOKENS, TELL, order, life, live))
            self._gate.produced(live.job, generated, self.now_s)
            self._told = True

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
        if kept is not None and kept.in_pool:
            hit, found_tokens, own = len(kept.extents), kept.tokens, kept.blocks
        else:
            # The last token is always computed, for what follows it.
            hit = self.pool.cached_extents(prefix, (live.goal_tokens - 1) // self._extent_tokens) if prefix else 0
            found_tokens, own = max(hit * self._extent_tokens, kept.tokens if kept is not None else 0), 0
        chunk = min(budget, live.goal_tokens - found_tokens)
        wanted = live.blocks_for(found_tokens + chunk, self._machine.block_tokens) - hit * self._extent_blocks - own
        revived = 0 if kept is not None and kept.in_pool else hit
        while wanted > self.pool.available_beside(prefix, revived):
            if not self.contexts.give_up_oldest(kept):
                return None
        self.contexts.claim(job)
        self.pool.hold(prefix[:revived])
        live.extents, live.blocks, live.computed_tokens = hit, own, found_tokens
        self._orders += 1
        live.order = self._orders
        self.running[live.order] = self._prefilling[live.order] = live
        outcome = self.run.outcomes[job.index]
        again = outcome.preemptions > 0
        if again:
            outcome.recomputed_tokens += live.goal_tokens - found_tokens
        else:
            outcome.hit_tokens = found_tokens
        outcome.computed_tokens += live.goal_tokens - found_tokens
        self._watch.saw("resumed" if again else "scheduled", self.now_s, job, cached_tokens=found_tokens)
        taken = self._grow_prompt(live, chunk)
        assert taken, "available_beside counted what could not be taken"
        return live, chunk

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
        self._stop(live)
        live.generated, live.goal_tokens = generated, live.job.prompt_tokens + generated
        self.waiting.appendleft(live)
        self._gate.retracted(live.job, self.now_s)
        self._watch.saw("preempted", self.now_s, live.job, output_tokens=live.generated)
        return live

    def _stop(self, live: Live, *, kept: bool = False) -> None:
        """It holds nothing from now on; what is full stays cached. Or another has taken over what it held (kept)."""
        if not kept:
            self.pool.give_back(live.blocks, live.filled(self.step, self._machine, self._extent_blocks))
            self.pool.let_go(live.job.request.prefix[: live.extents])
        del self.running[live.order]
        self._prefilling.pop(live.order, None)
        if live.begun_step >= 0:
            self._decoding -= 1
        live.life += 1
        live.begun_step = -1
        live.blocks = live.extents = live.computed_tokens = 0
