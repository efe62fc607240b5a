"""The gateway before the engine: a policy, and a queue in the order of arrival, in which some may be overtaken."""

from collections.abc import Iterator
from math import inf
from typing import Literal

from oomctl.analyzers.capacity.admission import State, decide
from oomctl.analyzers.capacity.replay.workload import Job

Verdict = Literal["admitted", "queued", "rejected"]


class Gate:
    """Admits, queues or rejects jobs.

    Args:
        state: The policy's view of the pool; None leaves all to the engine's own queue.

    Attributes:
        queue: Jobs that wait, and since when, by their index, the first to come first.
        reasons: Rejections by reason.
    """

    def __init__(self, state: State | None) -> None:
        self.state = state
        self.queue: dict[int, tuple[Job, float]] = {}
        self.reasons: dict[str, int] = {}
        self._someone_left = False

    def arrive(self, job: Job, now_s: float) -> Verdict:
        """A job comes; if it is admitted, it is in the state."""
        state = self.state
        if state is None:
            return "admitted"
        state.now_s = now_s
        decision = decide(state, job.request, len(self.queue), self._waited_s(now_s))
        if decision.action == "admit":
            state.enter(job.request)
            return "admitted"
        if decision.action == "queue":
            self.queue[job.index] = job, now_s
            return "queued"
        self.reasons[decision.reason] = self.reasons.get(decision.reason, 0) + 1
        return "rejected"

    def admit_waiting(self, now_s: float) -> Iterator[tuple[Job, Verdict]]:
        """Those that enter now, or never will: at the head of the queue, and behind it where they may overtake."""
        state = self.state
        if state is None or not self.queue:
            return
        state.now_s = now_s
        # What grows less than was feared lets in who waits longest; the others are asked when somebody has left.
        everybody, self._someone_left = self._someone_left, False
        ahead = 0
        for job, _ in list(self.queue.values()):
            decision = decide(state, job.request, ahead, self._waited_s(now_s))
            if decision.action == "queue":
                if not everybody or decision.reason == "behind_others":
                    return
                ahead += 1
                continue
            del self.queue[job.index]
            if decision.action == "admit":
                state.enter(job.request)
                yield job, "admitted"
            else:
                self.reasons[decision.reason] = self.reasons.get(decision.reason, 0) + 1
                yield job, "rejected"

    def _waited_s(self, now_s: float) -> float:
        """How long the first in the queue has waited."""
        return now_s - next(iter(self.queue.values()))[1] if self.queue else inf

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
            self._someone_left = True
