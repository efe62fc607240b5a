"""The time lines of the requests that are followed: who came, got and gave back blocks, and ended."""

from typing import Any

from oomctl.collectors.agent.kinds import EVENT
from oomctl.collectors.agent.layout import NULL_I32, NULL_I64
from oomctl.collectors.agent.requests import Followed, Sampler, count_blocks, follow
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.tables import BlockTables


class Timelines:
    """Writes the events of requests. Knows vLLM's objects, but wraps none of them.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        ring: Of the thread that runs it.
        tracked_requests: About how many are followed at a time; 0 for all.
        tables: Of all requests.

    Attributes:
        followed: The requests whose time line is recorded, by id.
        step_id: Of the step that was scheduled last.
        awaiting: Those of them that have no output token yet.
    """

    __slots__ = ("_ring", "_sampler", "_scheduler", "_tables", "awaiting", "followed", "step_id")

    def __init__(self, scheduler: Any, ring: Ring, tracked_requests: int, tables: BlockTables) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._tables = tables
        self._sampler = Sampler(tracked_requests)
        self.followed: dict[str, Followed] = {}
        self.step_id = 0
        self.awaiting: list[Followed] = []

    def forget(self) -> None:
        """Follow nobody."""
        self.followed.clear()
        self.awaiting.clear()
        self._tables.forget()

    def adopt(self) -> None:
        """Requests that were there before: their time line begins here."""
        alive = len(self._scheduler.requests)
        for request in list(self._scheduler.requests.values()):
            followed = self._sampler.draw(request, alive)
            if followed is not None:
                self.followed[request.request_id] = followed
                held, _ = self._tables.held(request.request_id)
                followed.write(self._ring, EVENT["scheduled" if held else "queued"], self.step_id, delta=held)
                if followed.awaits_token:
                    self.awaiting.append(followed)
                if held:
                    self._tables.look(followed, self.step_id + 1)

    def arrived(self, request: Any) -> None:
        """A request came; whether it is followed is drawn now."""
        sampler, alive = self._sampler, len(self._scheduler.requests)
        if sampler.passing and alive > sampler.target:
            # As `draw` does it, which costs 0.5 us more to call.
            sampler.passing -= 1
            return
        followed = sampler.draw(request, alive)
        # What comes with more of the prompt of one that is there already is taken into that one, and never ends itself.
        if followed is not None and self._scheduler.requests.get(request.request_id) is request:
            self.followed[request.request_id] = followed
            self.awaiting.append(followed)
            followed.write(self._ring, EVENT["queued"], NULL_I64)

    def began(self, new: Any, resumed: bool, scheduled_tokens: int) -> None:
        """A request that is followed is scheduled with all of its blocks: at first, resumed, or with more of its prompt.

        Args:
            new: The engine's NewRequestData.
            resumed: It was preempted before.
            scheduled_tokens: In this step.
        """
        event = EVENT["resumed" if resumed else "admitted"]
        followed = self.followed[new.req_id]
        followed.read_lengths()
        delta = count_blocks(new.block_ids) - followed.blocks
        followed.write(self._ring, event, self.step_id, delta, new.num_computed_tokens, scheduled_tokens)
        self._tables.look_soon(followed, self.step_id + 1)

    def leaves(self, followed: Followed) -> None:
        """It is about to lose its blocks."""
        self._tables.catch_up(followed, self.step_id)

    def preempted(self, followed: Followed) -> None:
        """It went back to the queue, and lost its blocks."""
        followed.write(self._ring, EVENT["preempted"], self.step_id, delta=-followed.blocks)

    def ended(self, followed: Followed) -> None:
        """It finished or was aborted; its blocks may come back now or later."""
        self.leaves(followed)
        event = "cancelled" if "ABORT" in followed.request.status.name else "finished"
        followed.write(self._ring, EVENT[event], self.step_id)

    def returned(self, followed: Followed) -> None:
        """It ended, and all of its blocks are back in the pool."""
        followed.write(self._ring, EVENT["blocks_freed"], self.step_id, delta=-followed.blocks)

    def first_tokens(self, step_id: int) -> None:
        """Look who got one in the step that is over."""
        waiting: list[Followed] = []
        for followed in self.awaiting:
            if followed.request.num_output_tokens:
                followed.awaits_token = False
                followed.write(self._ring, EVENT["first_token"], step_id)
            elif not followed.request.is_finished():
                waiting.append(followed)
        self.awaiting = waiting

    def alive(self, output: Any) -> None:
        """Every request in the engine, followed or not: for an OOM.

        Args:
            output: The failing step's SchedulerOutput, or None.
        """
        scheduled = getattr(output, "num_scheduled_tokens", None)
        for request in list(self._scheduler.requests.values()):
            followed = follow(request, "oom")
            followed.blocks, _ = self._tables.held(request.request_id)
            event = "scheduled" if request.status.name == "RUNNING" else "queued"
            tokens = NULL_I32 if scheduled is None else scheduled.get(request.request_id, 0)
            followed.write(self._ring, EVENT[event], self.step_id, scheduled=tokens)
