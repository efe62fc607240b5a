"""The gateway before the engine: a policy, and a queue served in the order of arrival."""

from collections import deque
from collections.abc import Iterator
from typing import Literal

from oomctl.analyzers.capacity.admission import State, decide
from oomctl.analyzers.capacity.replay.workload import Job

Verdict = Literal["admitted", "queued", "rejected"]


class Gate:
    """Admits, queues or rejects jobs.

    Args:
        state: The policy's view of the pool; None leaves all to the engine's own queue.
    """

    def __init__(self, state: State | None) -> None:
        self.state = state
        self.queue: deque[Job] = deque()
        self.reasons: dict[str, int] = {}

    def arrive(self, job: Job, now_s: float) -> Verdict:
        """A job comes; if it is admitted, it is in the state."""
        state = self.state
        if state is None:
            return "admitted"
        state.now_s = now_s
        decision = decide(state, job.request, len(self.queue))
        if decision.action == "admit":
            state.enter(job.request)
            return "admitted"
        if decision.action == "queue":
            self.queue.append(job)
            return "queued"
        self.reasons[decision.reason] = self.reasons.get(decision.reason, 0) + 1
        return "rejected"

    def admit_waiting(self, now_s: float) -> Iterator[tuple[Job, Verdict]]:
        """Those at the head of the queue that enter now, or never will."""
        state = self.state
        while state is not None and self.queue:
            state.now_s = now_s
            job = self.queue[0]
            decision = decide(state, job.request)
            if decision.action == "queue":
                return
            self.queue.popleft()
            if decision.action == "admit":
                state.enter(job.request)
                yield job, "admitted"
            else:
                self.reasons[decision.reason] = self.reasons.get(decision.reason, 0) + 1
                yield job, "rejected"

    def produced(self, job: Job, output_tokens: int, now_s: float) -> None:
        """An admitted job has generated so many tokens."""
        if self.state is not None:
            self.state.now_s = now_s
            self.state.produce(job.request.request, output_tokens)

    def retracted(self, job: Job, now_s: float) -> None:
        """The engine took its blocks away, to compute it again later."""
        if self.state is not None:
            self.state.now_s = now_s
            self.state.retract(job.request.request)

    def left(self, job: Job, now_s: float, *, finished: bool) -> None:
        """An admitted job ended."""
        if self.state is not None:
            self.state.now_s = now_s
            self.state.leave(job.request.request, finished=finished)
