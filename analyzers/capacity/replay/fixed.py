"""The simplest model: every request runs at the same speed, however many run; only the pool couples them.

Policies are compared in it without an engine's scheduler in between. A request takes prompt / prefill rate + outputs x time
per token from its admission, and holds its prompt's blocks at once, a further one whenever its tokens fill the last.
"""

import heapq

from oomctl.analyzers.capacity.admission import State
from oomctl.analyzers.capacity.admission.request import blocks_of
from oomctl.analyzers.capacity.replay.gate import Gate
from oomctl.analyzers.capacity.replay.outcome import Run
from oomctl.analyzers.capacity.replay.workload import Job, Workload

END, GROWTH = 0, 1


def replay_fixed(workload: Workload, state: State, *, counts_growth: bool = True) -> Run:
    """Replay at fixed speeds.

    Nothing is preempted and nothing shared: where more is held than the pool has, `Run.usage` tells how much and how long.

    Args:
        workload: Jobs whose arrivals are all on one clock.
        state: An empty pool with its policy and its speeds.
        counts_growth: Whether the policy is told what is generated. If not, a reservation stands as it is until the end.
    """
    replay = _Fixed(workload, state, counts_growth)
    for job in sorted(workload.jobs, key=lambda each: each.arrival_s):
        replay.advance(job.arrival_s)
        replay.arrive(job)
    replay.advance(float("inf"))
    return replay.run


class _Fixed:
    def __init__(self, workload: Workload, state: State, counts_growth: bool) -> None:
        self.run = Run.of(workload, state.policy.name, state.total_blocks, state.block_tokens)
        self._gate = Gate(state)
        self._state = state
        self._counts_growth = counts_growth
        self._due: list[tuple[float, int, int]] = []
        self._held = [0] * len(workload.jobs)
        self._first_s = [0.0] * len(workload.jobs)
        self._used = self._need = 0
        self._clock_s = 0.0
        self.run.reasons = self._gate.reasons

    def arrive(self, job: Job) -> None:
        outcome = self.run.outcomes[job.index]
        outcome.arrival_s = job.arrival_s
        verdict = self._gate.arrive(job, job.arrival_s)
        if verdict == "admitted":
            self._start(job, job.arrival_s)
        elif verdict == "queued":
            outcome.queued = True
            self.run.waiting_peak = max(self.run.waiting_peak, len(self._gate.queue))
        else:
            outcome.fate = "rejected"

    def advance(self, to_s: float) -> None:
        """Play everything up to an instant."""
        while self._due and self._due[0][0] <= to_s:
            now_s, kind, index = heapq.heappop(self._due)
            job = self.run.jobs[index]
            self._pass(now_s)
            if kind == END:
                self._grow(job, job.output_tokens, now_s)
                self._end(job, now_s)
            elif not self.run.outcomes[index].fate:
                tokens = round((now_s - self._first_s[index]) / self._state.tpot_s)
                self._grow(job, tokens, now_s)
                self._expect_growth(job, tokens)
        if self._due:
            self._pass(to_s)

    def _pass(self, now_s: float) -> None:
        self.run.usage.hold(self._used, max(0.0, now_s - self._clock_s), self.run.total_blocks)
        self._clock_s = max(self._clock_s, now_s)

    def _start(self, job: Job, now_s: float) -> None:
        state, outcome = self._state, self.run.outcomes[job.index]
        first_s = now_s + job.prompt_tokens / state.prefill_tokens_per_s
        self._first_s[job.index] = first_s
        outcome.admitted_s, outcome.first_token_s = now_s, first_s + state.tpot_s
        outcome.computed_tokens = job.prompt_tokens
        self._set(job, 0)
        self._need += self._whole(job, job.output_tokens)
        self.run.peak_need_blocks = max(self.run.peak_need_blocks, self._need)
        heapq.heappush(self._due, (first_s + job.output_tokens * state.tpot_s, END, job.index))
        self._expect_growth(job, 0)

    def _expect_growth(self, job: Job, tokens: int) -> None:
        """The next token that needs a block of its own."""
        block_tokens = self._state.block_tokens
        room = -(job.prompt_tokens + tokens) % block_tokens
        following = tokens + room + 1 if tokens else 1  # the first token tells that the prompt is done
        if following < job.output_tokens:
            due_s = self._first_s[job.index] + following * self._state.tpot_s
            heapq.heappush(self._due, (due_s, GROWTH, job.index))

    def _grow(self, job: Job, tokens: int, now_s: float) -> None:
        self._set(job, tokens)
        self._pass(now_s)
        if self._counts_growth:
            self._gate.produced(job, tokens, now_s)

    def _set(self, job: Job, tokens: int) -> None:
        whole = self._whole(job, tokens)
        self._used += whole - self._held[job.index]
        self._held[job.index] = whole

    def _whole(self, job: Job, tokens: int) -> int:
        return blocks_of(job.prompt_tokens, tokens, job.request.branches, self._state.block_tokens)

    def _end(self, job: Job, now_s: float) -> None:
        outcome = self.run.outcomes[job.index]
        outcome.end_s, outcome.fate = now_s, "finished"
        self._used -= self._held[job.index]
        self._need -= self._held[job.index]
        self._gate.left(job, now_s, finished=True)
        for entering, verdict in self._gate.admit_waiting(now_s):
            if verdict == "admitted":
                self._start(entering, now_s)
            else:
                self.run.outcomes[entering.index].fate = "rejected"
