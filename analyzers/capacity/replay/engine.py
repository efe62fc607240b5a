"""A paged engine as discrete events: chunked prefill, blocks taken at boundaries, preemption by recompute.

Nothing happens at most steps but one token more for each, so the clock jumps from event to event: an arrival, a block that
is full, an end. The cost is that of the events, whatever the number of steps between them.
"""

import heapq
from math import ceil, inf

from oomctl.analyzers.capacity.admission.request import blocks_of
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.machine import Live, Machine
from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.scheduler import END, GROWTH, TELL, TELL_TOKENS, Scheduler
from oomctl.analyzers.capacity.replay.watch import SILENT, Watch
from oomctl.analyzers.capacity.replay.workload import Job, Workload


class Engine(Scheduler):
    """One replay.

    Args:
        workload: What comes.
        machine: What it comes to.
        gate: What stands before it.
        watch: Is told what happens.
    """

    def __init__(self, workload: Workload, machine: Machine, gate: Gate, watch: Watch = SILENT) -> None:
        super().__init__(workload, machine, gate, watch)
        self._live: dict[int, Live] = {}
        self._told = False
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
            del self._gate.queue[index]
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
            self._pass(self._step_s(tokens))
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

    def _step_s(self, prompt_tokens: int) -> float:
        return prompt_tokens / self._machine.prefill_tokens_per_s + (self._machine.tpot_s if self._decoding else 0.0)

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
